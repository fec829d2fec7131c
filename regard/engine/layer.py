"""One layer of a Transformer decoder over one new token: few operations, over tables that are updated in place.

The number of torch operations, not their size, determines the time of a step of one sentence. So views, scales and
masks that do not change within a step are computed once.
"""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Bool, Complex, Float, Int
from torch import Tensor

from regard.attention.heads import AttentionReader, SelfAttention
from regard.engine.cache import FastSession, KeyValueTable
from regard.engine.heads import FastHeads, HeadSizes, Rotations
from regard.engine.parts import Frame, Rows, Start, feed_forward, padded
from regard.models.transformer.layer import TransformerLayer


class StepLayout:
    """Positions of one step's rows in the tables, for every layer; ``padded``: the number of rows with padding."""

    def __init__(self, session: FastSession, padded: int, dtype: torch.dtype) -> None:
        device = session.history.device
        self.sentences, self.width, self.dense = len(session.slots), session.width, session.dense
        self.rows, self.padded = session.rows, padded
        self.slots = torch.tensor(session.slots, dtype=torch.int64, device=device)
        self.time = torch.tensor(session.time, dtype=torch.int64, device=device)
        # If sentences fill all slots and are at the same time, a plain copy writes their cells.
        uniform = self.dense and self.width == session.history.shape[1] and len(set(session.time)) == 1
        self.shared_time = session.time[0] if uniform else None
        self._cell_mask = _additive(self._own_cells(session), dtype)
        positions = torch.arange(session.source_length, device=device)
        lengths = self.to_slots(torch.tensor(session.lengths, device=device), session.capacity)
        self._source_mask = _additive(positions < lengths[:, None], dtype)[:, None].expand(-1, self.width, -1)
        self._masks: dict[tuple[str, int, int], Tensor] = {}
        self._rotation: Tensor | None = None
        self._highest = max(session.time, default=0)

    def _own_cells(self, session: FastSession) -> Bool[Tensor, "slots width cells"]:
        """Return the cells that each hypothesis attends to: its history and the cell that it is about to write."""
        _, hypotheses, times = session.history.shape
        time = self.to_slots(self.time, session.capacity)[:, None, None, None]
        times_index = torch.arange(times, device=self.time.device)[:, None]
        if hypotheses == 1:
            return (times_index <= time).flatten(2)
        hypothesis = torch.arange(hypotheses, device=self.time.device)
        before = (session.history[:, : self.width, :, None] == hypothesis) & (times_index < time)
        new = (times_index == time) & (hypothesis == hypothesis[: self.width, None, None])
        if self.shared_time is not None:
            session.history[:, :, self.shared_time] = hypothesis.short()
        else:
            session.history[self.slots[:, None], hypothesis[: self.width], self.time[:, None]] = hypothesis[
                : self.width
            ].short()
        return (before | new).flatten(2)

    def position(self) -> Int[Tensor, "padded"]:
        """Return the position of each row's token, 0 for padding rows."""
        position = self.time.repeat_interleave(self.width) if self.width > 1 else self.time
        return padded(position, self.padded)

    def rotation(self, rotations: Rotations | None) -> Complex[Tensor, "rows 1 half"] | None:
        """Return the rotations of each row's position, computed once for all layers of a step."""
        if rotations is not None and self._rotation is None:
            time = self.time.repeat_interleave(self.width) if self.width > 1 else self.time
            self._rotation = rotations.at(time, self._highest)
        return self._rotation

    def cell_mask(self, heads: HeadSizes) -> Float[Tensor, "tables queries cells"]:
        """Return the mask that is added to energies over the cells."""
        return self._for_heads("cells", self._cell_mask, heads)

    def source_mask(self, heads: HeadSizes) -> Float[Tensor, "tables queries length"]:
        """Return the mask that is added to energies over the source."""
        return self._for_heads("source", self._source_mask, heads)

    def _for_heads(
        self, name: str, mask: Float[Tensor, "slots width keys"], heads: HeadSizes
    ) -> Float[Tensor, "tables queries keys"]:
        """Return one mask per key head for all heads and hypotheses that share it, computed once per step."""
        key_heads, group = heads.key_heads, heads.group
        if (name, key_heads, group) not in self._masks:
            spread = mask[:, None, None].expand(-1, key_heads, group, -1, -1)
            shape = len(mask) * key_heads, group * mask.shape[1], mask.shape[2]
            self._masks[name, key_heads, group] = spread.reshape(shape)
        return self._masks[name, key_heads, group]

    def to_slots(self, x: Float[Tensor, "sentences *shape"], slots: int) -> Float[Tensor, "slots *shape"]:
        """Return ``x`` of each sentence at its slot, and 0 in empty slots."""
        return x if self.dense else x.new_zeros(slots, *x.shape[1:]).index_copy_(0, self.slots, x)

    def from_slots(self, x: Float[Tensor, "slots *shape"]) -> Float[Tensor, "sentences *shape"]:
        """Return ``x`` of each sentence, gathered from its slot."""
        return x if self.dense else x.index_select(0, self.slots)


class FastLayer:
    """One decoder layer with fused and packed projections; keys and values are stored in ``table_dtype``."""

    def __init__(self, layer: TransformerLayer, table_dtype: torch.dtype, rotations: Rotations | None) -> None:
        mixer, reader = cast(SelfAttention, layer.mixer), cast(AttentionReader, layer.reader)
        self.own = FastHeads(mixer.attention, is_self_attention=True, rotary=mixer.rotary, rotations=rotations)
        self.other, self.table_dtype = FastHeads(reader.attention, is_self_attention=False), table_dtype
        self.start, self.feed_forward = Start(layer.start_mix), feed_forward(layer.feed_forward)
        self.frames = [Frame(x) for x in (layer.around_mixer, layer.around_reader, layer.around_feed_forward)]

    def source_table(
        self, states: Float[Tensor, "sentences length width"], valid: Bool[Tensor, "sentences length"]
    ) -> KeyValueTable:
        """Return keys and values of the source, computed once per sentence; values of padding are 0."""
        key, value = (
            x.unflatten(0, states.shape[:2]).transpose(1, 2).to(self.table_dtype).contiguous()
            for x in self.other.keys_values(states.flatten(0, 1))
        )
        return KeyValueTable(key, value.masked_fill_(~valid[:, None, :, None], 0.0))

    def empty_cells(self, like: Float[Tensor, "sentences length width"], times: int) -> KeyValueTable:
        """Return cells of zeros for ``times`` times, with one hypothesis per sentence."""
        own = self.own.sizes
        return KeyValueTable(*(
            like.new_zeros(len(like), own.key_heads, times, 1, width // own.key_heads, dtype=self.table_dtype)
            for width in (own.keys, own.values)
        ))  # fmt: skip

    def __call__(
        self, x: Rows, embedded: Rows, cells: KeyValueTable, source: KeyValueTable, layout: StepLayout
    ) -> Rows:
        around_mixer, around_reader, around_feed_forward = self.frames
        x = self.start(x, embedded)
        x = around_mixer.after(self._attend_cells(around_mixer.before(x), x, cells, layout))
        x = around_reader.after(self._attend_source(around_reader.before(x), x, source, layout))
        return around_feed_forward.after(self.feed_forward(around_feed_forward.before(x), x))

    def _attend_cells(self, x: Rows, residual: Rows, cells: KeyValueTable, layout: StepLayout) -> Rows:
        sizes, rotation = self.own.sizes, layout.rotation(self.own.rotations)
        query, key, value, gate = self.own.project(x, layout.rows, self.table_dtype, rotation)
        assert key is not None and value is not None
        _write(cells.key, key, layout)
        _write(cells.value, value, layout)
        context, _ = attend(query, sizes, cells, layout.cell_mask(sizes), layout)
        return self.own.add_output(context, gate, residual)

    def _attend_source(self, x: Rows, residual: Rows, source: KeyValueTable, layout: StepLayout) -> Rows:
        sizes = self.other.sizes
        query, _, _, gate = self.other.project(x, layout.rows, self.table_dtype)
        context, _ = attend(query, sizes, source, layout.source_mask(sizes), layout)
        return self.other.add_output(context, gate, residual)


def _additive(visible: Bool[Tensor, "*shape"], dtype: torch.dtype) -> Float[Tensor, "*shape"]:
    """Return terms added to energies: 0 for visible keys, the lowest number of the format for others."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, torch.finfo(dtype).min)


def attend(
    query: Float[Tensor, "rows heads query_width"],
    heads: HeadSizes,
    table: KeyValueTable,
    mask: Float[Tensor, "tables queries keys"],
    layout: StepLayout,
) -> tuple[Float[Tensor, "rows heads value_width"], Float[Tensor, "tables queries keys"]]:
    """Return softmax(q·k + mask) v of every hypothesis over all keys of its slot, and the softmax; q is scaled."""
    slots, width = len(table.key), table.key_view.shape[1]
    queries = layout.to_slots(_by_head(query, heads, layout), slots)
    folded = queries.reshape(slots * heads.key_heads, heads.group * layout.width, width)
    weights = torch.softmax(torch.baddbmm(mask, folded, table.key_view), -1)
    context = torch.bmm(weights, table.value_view).view(*queries.shape[:4], table.value_view.shape[2])
    context = layout.from_slots(context)
    context = context if layout.width == 1 else context.permute(0, 3, 1, 2, 4)
    return context.reshape(layout.rows, heads.heads, table.value_view.shape[2]), weights


def _by_head(
    query: Float[Tensor, "rows heads width"], heads: HeadSizes, layout: StepLayout
) -> Float[Tensor, "sentences key_heads group width key_width"]:
    """Return the query of each hypothesis, grouped by key head."""
    if layout.width == 1:  # skip a permutation that would move nothing
        return query.view(layout.sentences, heads.key_heads, heads.group, 1, query.shape[2])
    shape = layout.sentences, layout.width, heads.key_heads, heads.group, query.shape[2]
    return query.view(shape).permute(0, 2, 3, 1, 4)


def _write(
    table: Float[Tensor, "slots key_heads times hypotheses features"],
    new: Float[Tensor, "rows key_heads features"],
    layout: StepLayout,
) -> None:
    """Write new keys or values into the cells of each sentence's time."""
    by_hypothesis = new.unflatten(0, (layout.sentences, layout.width)).transpose(1, 2)
    if layout.shared_time is not None:
        table.select(2, layout.shared_time).copy_(by_hypothesis)
        return
    head = torch.arange(table.shape[1], device=table.device)
    table[:, :, :, : layout.width][layout.slots[:, None], head, layout.time[:, None]] = by_hypothesis.to(table.dtype)
