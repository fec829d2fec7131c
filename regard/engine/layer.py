"""One layer of a Transformer decoder over one new column: few operations, over tables that are written in place.

The time of a step of one sentence is bound by the number of torch operations rather than by their size, so views,
scales and masks that do not change within a step are made once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.heads import AttentionReader, MultiHead, SelfAttention
from regard.attention.mechanisms.dot import Dot
from regard.engine.cache import FastSession, KeyValueTable
from regard.engine.packed import Format, PackedMatrix, pack
from regard.models.transformer.feed_forward import FeedForward, GatedFeedForward
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.norms import PostNorm, Residual

__all__ = ["FastLayer", "StepLayout", "norm"]

Rows = Float[Tensor, "rows width"]


class StepLayout:
    """Positions of one step's rows in the tables, for every layer; ``padded`` counts the rows with padding."""

    def __init__(self, session: FastSession, padded: int) -> None:
        device = session.source_mask.device
        self.sentences, self.width, self.dense = len(session.slots), session.width, session.dense
        self.rows, self.padded = session.rows, padded
        self.slots = torch.tensor(session.slots, dtype=torch.int64, device=device)
        self.time = torch.tensor(session.time, dtype=torch.int64, device=device)
        # Where sentences fill all slots and are at one time, a plain copy writes their cells.
        whole = self.dense and self.width == session.cell_mask.shape[1] and len(set(session.time)) == 1
        self.shared_time = session.time[0] if whole else None
        self._unmask_new_cells(session)
        self._cell_mask = session.cell_mask[:, : self.width].flatten(2)
        self._source_mask = session.source_mask[:, None].expand(-1, self.width, -1)
        self._masks: dict[tuple[str, int, int], Tensor] = {}

    def _unmask_new_cells(self, session: FastSession) -> None:
        """Let each hypothesis attend to the cell that it is about to write."""
        if self.shared_time is not None:
            session.cell_mask[:, :, self.shared_time].diagonal(0, 1, 2).zero_()
            return
        place = torch.arange(self.width, device=self.slots.device)
        session.cell_mask[self.slots[:, None], place, self.time[:, None], place] = 0.0

    def position(self) -> Int[Tensor, "padded"]:
        """The column of each row, 0 for rows of padding."""
        position = self.time.repeat_interleave(self.width) if self.width > 1 else self.time
        return _padded(position, self.padded)

    def cell_mask(self, heads: HeadSizes) -> Float[Tensor, "tables queries cells"]:
        """The mask that is added to energies over the cells."""
        return self._for_heads("cells", self._cell_mask, heads)

    def source_mask(self, heads: HeadSizes) -> Float[Tensor, "tables queries length"]:
        """The mask that is added to energies over the source."""
        return self._for_heads("source", self._source_mask, heads)

    def _for_heads(
        self, name: str, mask: Float[Tensor, "slots width columns"], heads: HeadSizes
    ) -> Float[Tensor, "tables queries columns"]:
        """One mask a key head, for all heads and hypotheses that share it; made once for the layers of a step."""
        key_heads, group = heads.key_heads, heads.group
        if (name, key_heads, group) not in self._masks:
            spread = mask[:, None, None].expand(-1, key_heads, group, -1, -1)
            shape = len(mask) * key_heads, group * mask.shape[1], mask.shape[2]
            self._masks[name, key_heads, group] = spread.reshape(shape)
        return self._masks[name, key_heads, group]

    def to_slots(self, x: Float[Tensor, "sentences *shape"], slots: int) -> Float[Tensor, "slots *shape"]:
        """``x`` of each sentence at its slot, and 0 in empty slots."""
        return x if self.dense else x.new_zeros(slots, *x.shape[1:]).index_copy_(0, self.slots, x)

    def from_slots(self, x: Float[Tensor, "slots *shape"]) -> Float[Tensor, "sentences *shape"]:
        """``x`` of each sentence, gathered from its slot."""
        return x if self.dense else x.index_select(0, self.slots)


class FastLayer:
    """One decoder layer with fused projections packed for ``format``; keys and values are kept in ``table_dtype``."""

    def __init__(self, layer: TransformerLayer, format: Format, table_dtype: torch.dtype) -> None:
        mixer, reader = cast(SelfAttention, layer.mixer), cast(AttentionReader, layer.reader)
        own, other = mixer.attention, reader.attention
        self.self_heads, self.cross_heads, self.table_dtype = HeadSizes.of(own), HeadSizes.of(other), table_dtype
        self.self_projection = pack(_stacked(_query(own), _matrix(own.key), _matrix(own.value)), format, alone=True)
        self.cross_query = pack(_query(other), format, alone=True)
        self.cross_key_value = pack(_stacked(_matrix(other.key), _matrix(other.value)), format)
        self.self_output, self.cross_output = (pack(_matrix(x.output), format, alone=True) for x in (own, other))
        self.feed_forward = _feed_forward(layer.feed_forward, format)
        self.frames = [_Frame(x) for x in (layer.around_mixer, layer.around_reader, layer.around_feed_forward)]

    def source_table(
        self, states: Float[Tensor, "sentences length width"], valid: Bool[Tensor, "sentences length"]
    ) -> KeyValueTable:
        """Keys and values of the source, computed once a sentence; values of padding are 0."""
        key, value = self.cross_key_value(states.flatten(0, 1)).split(
            [self.cross_heads.keys, self.cross_heads.values], 1
        )
        shape = (*states.shape[:2], self.cross_heads.key_heads, -1)
        key, value = (x.reshape(shape).transpose(1, 2).to(self.table_dtype).contiguous() for x in (key, value))
        return KeyValueTable(key, value.masked_fill_(~valid[:, None, :, None], 0.0))

    def empty_cells(self, like: Float[Tensor, "sentences length width"], times: int) -> KeyValueTable:
        """Cells of zeros for so many times, with one place each."""
        own = self.self_heads
        return KeyValueTable(*(
            like.new_zeros(len(like), own.key_heads, times, 1, width // own.key_heads, dtype=self.table_dtype)
            for width in (own.keys, own.values)
        ))  # fmt: skip

    def __call__(self, x: Rows, cells: KeyValueTable, source: KeyValueTable, layout: StepLayout) -> Rows:
        around_mixer, around_reader, around_feed_forward = self.frames
        x = around_mixer.after(self.self_output.add_to(x, self._self_attention(around_mixer.before(x), cells, layout)))
        x = around_reader.after(
            self.cross_output.add_to(x, self._cross_attention(around_reader.before(x), source, layout))
        )
        return around_feed_forward.after(self.feed_forward(around_feed_forward.before(x), x))

    def _self_attention(self, x: Rows, cells: KeyValueTable, layout: StepLayout) -> Rows:
        own = self.self_heads
        query, key, value = self.self_projection(x).split_with_sizes([own.queries, own.keys, own.values], 1)
        _write(cells.key, key, layout)
        _write(cells.value, value, layout)
        return _attend(query, own, cells, layout.cell_mask(own), layout)

    def _cross_attention(self, x: Rows, source: KeyValueTable, layout: StepLayout) -> Rows:
        return _attend(self.cross_query(x), self.cross_heads, source, layout.source_mask(self.cross_heads), layout)


def _attend(
    query: Float[Tensor, "padded queries"],
    heads: HeadSizes,
    table: KeyValueTable,
    mask: Float[Tensor, "tables queries columns"],
    layout: StepLayout,
) -> Float[Tensor, "padded values"]:
    """softmax(q·k + mask) v of every hypothesis over all columns of its slot; q is scaled already."""
    slots, width = len(table.key), table.key_view.shape[1]
    queries = layout.to_slots(_by_head(query, heads, layout, table.key_view.dtype), slots)
    folded = queries.reshape(slots * heads.key_heads, heads.group * layout.width, width)
    weights = torch.softmax(torch.baddbmm(mask, folded, table.key_view), -1)
    context = torch.bmm(weights, table.value_view).view(*queries.shape[:4], table.value_view.shape[2])
    return _by_row(layout.from_slots(context), layout).to(query.dtype)


def _by_head(
    query: Float[Tensor, "padded queries"], heads: HeadSizes, layout: StepLayout, dtype: torch.dtype
) -> Float[Tensor, "sentences key_heads group width key_width"]:
    """The query without rows of padding, grouped by key head."""
    queries = (query[: layout.rows] if layout.padded > layout.rows else query).to(dtype)
    width = query.shape[1] // heads.heads
    if layout.width == 1:  # skip a permutation that would move nothing
        return queries.view(layout.sentences, heads.key_heads, heads.group, 1, width)
    return queries.view(layout.sentences, layout.width, heads.key_heads, heads.group, width).permute(0, 2, 3, 1, 4)


def _by_row(
    context: Float[Tensor, "sentences key_heads group width value_width"], layout: StepLayout
) -> Float[Tensor, "padded values"]:
    """The context as rows, heads side by side, with rows of padding at the end."""
    context = context if layout.width == 1 else context.permute(0, 3, 1, 2, 4)
    return _padded(context.reshape(layout.rows, math.prod(context.shape[1:]) // layout.width), layout.padded)


def _padded(x: Float[Tensor, "rows *width"], rows: int) -> Float[Tensor, "{rows} *width"]:
    missing = rows - len(x)
    return nn.functional.pad(x, (0, 0) * (x.dim() - 1) + (0, missing)) if missing else x


def _write(
    table: Float[Tensor, "slots key_heads times places features"],
    new: Float[Tensor, "padded all_features"],
    layout: StepLayout,
) -> None:
    """Write new keys or values into the cells of each sentence's time."""
    new = new[: layout.rows] if layout.padded > layout.rows else new
    by_place = new.view(layout.sentences, layout.width, table.shape[1], table.shape[4]).transpose(1, 2)
    if layout.shared_time is not None:
        table.select(2, layout.shared_time).copy_(by_place)
        return
    head = torch.arange(table.shape[1], device=table.device)
    table[:, :, :, : layout.width][layout.slots[:, None], head, layout.time[:, None]] = by_place.to(table.dtype)


class HeadSizes(NamedTuple):
    """Numbers of heads, and the widths of their projections in features of all heads together."""

    heads: int  # of queries
    key_heads: int
    queries: int
    keys: int
    values: int

    @property
    def group(self) -> int:
        """Query heads that share one key head."""
        return self.heads // self.key_heads

    @classmethod
    def of(cls, attention: MultiHead) -> HeadSizes:
        heads, key_heads = attention.heads, attention.key_heads
        widths = heads * attention.query_width, key_heads * attention.key_width, key_heads * attention.value_width
        return cls(heads, key_heads, *widths)


def _query(attention: MultiHead) -> PackedMatrix:
    """The query projection, multiplied by the scale of the energies."""
    scale = cast(Dot, attention.mechanism).scale
    scale = 1 / math.sqrt(attention.key_width) if scale is None else scale
    weight, bias = _matrix(attention.query)
    return PackedMatrix(weight * scale, None if bias is None else bias * scale)


def _matrix(layer: nn.Module) -> PackedMatrix:
    return PackedMatrix.of(cast(nn.Linear, layer))


def _stacked(*matrices: PackedMatrix) -> PackedMatrix:
    """Matrices over the same features stacked into one, so that one product computes all."""
    weight = torch.cat([each.weight for each in matrices])
    if all(each.bias is None for each in matrices):
        return PackedMatrix(weight)
    return PackedMatrix(weight, torch.cat([w.new_zeros(len(w)) if b is None else b for w, b in matrices]))


def norm(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """The computation of a norm as a function, without the cost of calling a module."""
    if type(layer) is nn.LayerNorm:
        weight, bias = layer.weight.detach(), layer.bias.detach()
        return lambda x: torch.layer_norm(x, layer.normalized_shape, weight, bias, layer.eps)
    if type(layer) is nn.RMSNorm:
        scales = {dtype: layer.weight.detach().to(dtype) for dtype in (layer.weight.dtype, torch.bfloat16)}
        return lambda x: torch.rms_norm(x, layer.normalized_shape, scales[x.dtype], layer.eps)
    return _same if type(layer) is nn.Identity else layer


def _same(x: Tensor) -> Tensor:
    return x


class _Frame:
    """A residual frame without dropout: a norm before the branch or after the sum."""

    def __init__(self, frame: Residual) -> None:
        post, normed = isinstance(frame, PostNorm), norm(frame.norm)
        self.before: Callable[[Rows], Rows] = _same if post else normed
        self.after: Callable[[Rows], Rows] = normed if post else _same


class _FeedForward:
    """Two packed matrices around an activation."""

    def __init__(self, layer: FeedForward, format: Format) -> None:
        self.up, self.down = (pack(PackedMatrix.of(x), format, alone=True) for x in (layer.up, layer.down))
        self.activation = layer.activation

    def __call__(self, x: Rows, residual: Rows) -> Rows:
        rectifies = self.activation is torch.relu
        inner = self.up.relu(x) if rectifies else self.activation(self.up(x))
        return self.down.add_to(residual, inner)


class _GatedFeedForward:
    """A gated feed-forward with its first two matrices stacked into one."""

    def __init__(self, layer: GatedFeedForward, format: Format) -> None:
        self.up = pack(_stacked(PackedMatrix.of(layer.gate), PackedMatrix.of(layer.up)), format, alone=True)
        self.down, self.activation = pack(PackedMatrix.of(layer.down), format, alone=True), layer.activation

    def __call__(self, x: Rows, residual: Rows) -> Rows:
        gate, inner = self.up(x).chunk(2, 1)
        return self.down.add_to(residual, self.activation(gate) * inner)


def _feed_forward(layer: FeedForward | GatedFeedForward, format: Format) -> _FeedForward | _GatedFeedForward:
    return _FeedForward(layer, format) if isinstance(layer, FeedForward) else _GatedFeedForward(layer, format)
