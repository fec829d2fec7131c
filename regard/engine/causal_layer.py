"""One layer of a language model over the next columns of each row: one as a step, or many as a prompt is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from regard.attention.heads import SelfAttention
from regard.attention.kernel import share_heads
from regard.attention.mask import Window
from regard.attention.mechanisms.dot import Dot
from regard.attention.positions.distance_bias import Alibi, T5CausalBias, alibi_slopes
from regard.engine.causal_state import CausalState, CausalTable
from regard.engine.heads import FastHeads, Projected, Turns
from regard.engine.parts import Frame, Rows, Start, feed_forward
from regard.models.transformer.layer import TransformerLayer

ByDistance = Callable[[Int[Tensor, "rows query key"]], Float[Tensor, "rows heads query key"]]
Visible = Float[Tensor, "#rows #heads query slots"]  # added to energies: 0 or a bias, or the lowest number


class NextColumns:
    """The next ``number`` columns of each row: their positions, and what they may see of a table, for every layer."""

    def __init__(self, state: CausalState, number: int, dtype: torch.dtype) -> None:
        self.time, self.rows, self.number, self.dtype = state.time, len(state.time), number, dtype
        self.count = self.rows * number
        self.device = state.tables[0].key.device
        self.even = len(set(state.time)) <= 1  # all rows are at one position
        self.first, self.last = (min(state.time), max(state.time)) if state.time else (0, 0)
        self.last += number - 1
        self._turn: Tensor | None = None
        self._visible: dict[object, Visible] = {}
        self._position: Tensor | None = None

    @property
    def position(self) -> Int[Tensor, "#rows columns"]:
        """Positions of the columns; one row of them where all rows agree."""
        if self._position is None:
            begin = self.time[:1] if self.even else self.time
            begins = torch.tensor(begin, dtype=torch.int64, device=self.device)
            self._position = begins[:, None] + torch.arange(self.number, device=self.device)
        return self._position

    def turn(self, turns: Turns | None) -> Complex[Tensor, "columns 1 half"] | None:
        """The turns of all columns, row by row, made once for the layers of a stack, which have the same."""
        if turns is not None and self._turn is None:
            if self.even:
                turn = turns.between(self.first, self.last + 1)
                self._turn = turn if self.number == 1 else turn.repeat(self.rows, 1, 1)
            else:
                self._turn = turns.at(self.position.flatten(), self.last)
        return self._turn

    def visible(self, table: CausalTable, slots: int, bias: ByDistance | None, *, wrapped: bool) -> Visible | None:
        """Terms added to energies over the first slots of a table that holds the columns; None: order hides enough.

        ``wrapped``: the columns are not in the table, but follow the slots, in which the newest column before them is.
        """
        if self.even and bias is None and (self.number == 1 or (self.first == 0 and not wrapped)):
            return None
        which = (table.window if wrapped or slots == table.most else None, slots, bias, wrapped)
        if which not in self._visible:
            key = table.positions(self.position[:, 0] - 1 if wrapped else self.position[:, -1], slots)
            key = torch.cat([key, self.position], 1) if wrapped else key
            distance = key[:, None] - self.position[:, :, None]
            hidden = (distance > 0) | (key < 0)[:, None]
            if table.window is not None:
                hidden |= distance < -table.window
            added = torch.zeros((), dtype=self.dtype, device=self.device) if bias is None else bias(distance)
            self._visible[which] = torch.where(hidden[:, None], torch.finfo(self.dtype).min, added.to(self.dtype))
        return self._visible[which]


class FastCausalLayer:
    """Self-attention and feed-forward with packed matrices; keys and values are kept in ``table_dtype``."""

    def __init__(self, layer: TransformerLayer, table_dtype: torch.dtype, turns: Turns | None) -> None:
        mixer = cast(SelfAttention, layer.mixer)
        own = turns if mixer.rotary is not None else None
        self.heads = FastHeads(mixer.attention, of_self=True, rotary=mixer.rotary, turns=own)
        self.window = next((part.radius for part in mixer.mask.conjuncts() if isinstance(part, Window)), None)
        self.bias = bias_by_distance(cast(Dot, mixer.attention.mechanism).bias, mixer.attention.heads)
        self.start, self.feed_forward = Start(layer.start_mix), feed_forward(layer.feed_forward)
        self.table_dtype, self.frames = table_dtype, (Frame(layer.around_mixer), Frame(layer.around_feed_forward))

    def empty_table(self, rows: int, device: torch.device) -> CausalTable:
        """A table of so many rows before their first token."""
        sizes = self.heads.sizes
        key, value = (
            torch.zeros(rows, sizes.key_heads, 0, width // sizes.key_heads, dtype=self.table_dtype, device=device)
            for width in (sizes.keys, sizes.values)
        )
        return CausalTable(key, value, self.window)

    def __call__(self, x: Rows, embedded: Rows, table: CausalTable, columns: NextColumns) -> Rows:
        around_mixer, around_feed_forward = self.frames
        x = self.start(x, embedded)
        own = self.heads.project(
            around_mixer.before(x), columns.count, self.table_dtype, columns.turn(self.heads.turns)
        )
        x = around_mixer.after(self.heads.close(self._attend(own, table, columns), own.gate, x))
        return around_feed_forward.after(self.feed_forward(around_feed_forward.before(x), x))

    def _attend(
        self, own: Projected, table: CausalTable, columns: NextColumns
    ) -> Float[Tensor, "columns heads value_width"]:
        assert own.key is not None and own.value is not None
        if columns.number == 1:
            return self._attend_once(own.query, own.key, own.value, table, columns)
        shape, most = (columns.rows, columns.number), table.most
        key, value = own.key.unflatten(0, shape), own.value.unflatten(0, shape)
        if most is None or columns.last < most:
            _write(table.key, key, columns, most)
            _write(table.value, value, columns, most)
            slots = min(columns.last + 1, table.slots)
            keys, values = table.key[:, :, :slots], table.value[:, :, :slots]
            visible = columns.visible(table, slots, self.bias, wrapped=False)
        else:
            keys, values = (
                torch.cat([old, new.transpose(1, 2)], 2) for old, new in ((table.key, key), (table.value, value))
            )
            visible = columns.visible(table, table.slots, self.bias, wrapped=True)
            _write(table.key, key, columns, most)
            _write(table.value, value, columns, most)
        query = own.query.unflatten(0, shape).transpose(1, 2)
        keys, values = (share_heads(x, query.shape[1]) for x in (keys, values))
        context = scaled_dot_product_attention(
            query, keys, values, attn_mask=visible, is_causal=visible is None, scale=1.0
        )
        return context.transpose(1, 2).flatten(0, 1)

    def _attend_once(
        self,
        query: Float[Tensor, "rows heads key_width"],
        key: Float[Tensor, "rows key_heads key_width"],
        value: Float[Tensor, "rows key_heads value_width"],
        table: CausalTable,
        columns: NextColumns,
    ) -> Float[Tensor, "rows heads value_width"]:
        """softmax(q·k + visible) v of one query a row; q is scaled already. Queries of one key head lie together."""
        rows, heads, width = query.shape
        if columns.even:
            at = columns.first if table.most is None else columns.first % table.most
            table.key.select(2, at).copy_(key)
            table.value.select(2, at).copy_(value)
        else:
            _write(table.key, key[:, None], columns, table.most)
            _write(table.value, value[:, None], columns, table.most)
        slots, key_heads = min(columns.last + 1, table.slots), key.shape[1]
        group = heads // key_heads
        folded, keys = query.reshape(rows * key_heads, group, width), table.key_view.narrow(2, 0, slots)
        visible = columns.visible(table, slots, self.bias, wrapped=False)
        if visible is None:
            energy = torch.bmm(folded, keys)
        else:
            added = visible.expand(rows, heads, 1, slots).reshape(rows * key_heads, group, slots)
            energy = torch.baddbmm(added, folded, keys)
        context = torch.bmm(torch.softmax(energy, -1), table.value_view.narrow(1, 0, slots))
        return context.view(rows, heads, value.shape[2])


def _write(
    table: Float[Tensor, "rows key_heads slots width"],
    new: Float[Tensor, "rows columns key_heads width"],
    columns: NextColumns,
    most: int | None,
) -> None:
    """Write keys or values of the columns into their slots, of a window the last of them."""
    if columns.even and (most is None or columns.last < most):
        table[:, :, columns.first : columns.last + 1].copy_(new.transpose(1, 2))
        return
    position = columns.position.expand(columns.rows, -1)
    if most is not None:
        new, position = new[:, -most:], position[:, -most:] % most
    row = torch.arange(columns.rows, device=table.device)[:, None]
    table[row, :, position] = new


def bias_by_distance(bias: nn.Module | None, heads: int) -> ByDistance | None:
    """A bias of energies as a function of distances j − i; those of layers that share it are equal."""
    if isinstance(bias, Alibi):
        return _Slopes(heads)
    return _Buckets(bias) if isinstance(bias, T5CausalBias) else None


@dataclass(frozen=True)
class _Slopes:
    """ALiBi's bias for so many heads."""

    heads: int

    def __call__(self, distance: Int[Tensor, "rows query key"]) -> Float[Tensor, "rows heads query key"]:
        slopes = alibi_slopes(self.heads, device=distance.device)
        return -slopes[:, None, None] * distance.abs()[:, None]


@dataclass(frozen=True)
class _Buckets:
    """T5's learned bias."""

    bias: T5CausalBias

    def __call__(self, distance: Int[Tensor, "rows query key"]) -> Float[Tensor, "rows heads query key"]:
        return self.bias.table.detach()[self.bias.bucket(distance)].permute(0, 3, 1, 2)
