"""One layer of a language model over the next tokens of each row: one token in a step, or many of a prompt."""

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
from regard.engine.heads import FastHeads, Projected, Rotations
from regard.engine.parts import Frame, Rows, Start, feed_forward
from regard.models.transformer.layer import TransformerLayer

ByDistance = Callable[[Int[Tensor, "rows query key"]], Float[Tensor, "rows heads query key"]]
Visible = Float[Tensor, "#rows #heads query slots"]  # added to energies: 0 or a bias; hidden keys get the lowest number


class NextTokens:
    """The next ``number`` tokens of each row: their positions and the keys of a table that they see, for all layers."""

    def __init__(self, state: CausalState, number: int, dtype: torch.dtype) -> None:
        self.time, self.rows, self.number, self.dtype = state.time, len(state.time), number, dtype
        self.count = self.rows * number
        self.device = state.tables[0].key.device
        self.aligned = len(set(state.time)) <= 1  # all rows are at the same position
        self.first, self.last = (min(state.time), max(state.time)) if state.time else (0, 0)
        self.last += number - 1
        self._rotation: Tensor | None = None
        self._visible: dict[object, Visible] = {}
        self._position: Tensor | None = None

    @property
    def position(self) -> Int[Tensor, "#rows tokens"]:
        """Positions of the tokens; a single row if all rows agree."""
        if self._position is None:
            begin = self.time[:1] if self.aligned else self.time
            begins = torch.tensor(begin, dtype=torch.int64, device=self.device)
            self._position = begins[:, None] + torch.arange(self.number, device=self.device)
        return self._position

    def rotation(self, rotations: Rotations | None) -> Complex[Tensor, "tokens 1 half"] | None:
        """Return the rotations of all tokens, row by row, computed once for all layers of a stack."""
        if rotations is not None and self._rotation is None:
            if self.aligned:
                rotation = rotations.between(self.first, self.last + 1)
                self._rotation = rotation if self.number == 1 else rotation.repeat(self.rows, 1, 1)
            else:
                self._rotation = rotations.at(self.position.flatten(), self.last)
        return self._rotation

    def visible(self, table: CausalTable, slots: int, bias: ByDistance | None, *, wrapped: bool) -> Visible | None:
        """Return terms added to energies over the first slots of a table; None if causal order suffices.

        ``wrapped``: the tokens are not in the table but follow its slots, which hold everything up to the previous
        token.
        """
        if self.aligned and bias is None and (self.number == 1 or (self.first == 0 and not wrapped)):
            return None
        cache_key = (table.window if wrapped or slots == table.slot_limit else None, slots, bias, wrapped)
        if cache_key not in self._visible:
            key = table.positions(self.position[:, 0] - 1 if wrapped else self.position[:, -1], slots)
            key = torch.cat([key, self.position], 1) if wrapped else key
            distance = key[:, None] - self.position[:, :, None]
            hidden = (distance > 0) | (key < 0)[:, None]
            if table.window is not None:
                hidden |= distance < -table.window
            added = torch.zeros((), dtype=self.dtype, device=self.device) if bias is None else bias(distance)
            self._visible[cache_key] = torch.where(hidden[:, None], torch.finfo(self.dtype).min, added.to(self.dtype))
        return self._visible[cache_key]


class FastCausalLayer:
    """Self-attention and feed-forward with packed matrices; keys and values are stored in ``table_dtype``."""

    def __init__(self, layer: TransformerLayer, table_dtype: torch.dtype, rotations: Rotations | None) -> None:
        mixer = cast(SelfAttention, layer.mixer)
        self.heads = FastHeads(
            mixer.attention, is_self_attention=True, rotary=mixer.rotary,
            rotations=None if mixer.rotary is None else rotations,
        )  # fmt: skip
        self.window = next((part.radius for part in mixer.mask.conjuncts() if isinstance(part, Window)), None)
        self.bias = bias_by_distance(cast(Dot, mixer.attention.mechanism).bias, mixer.attention.heads)
        self.start, self.feed_forward = Start(layer.start_mix), feed_forward(layer.feed_forward)
        self.table_dtype, self.frames = table_dtype, (Frame(layer.around_mixer), Frame(layer.around_feed_forward))

    def empty_table(self, rows: int, device: torch.device) -> CausalTable:
        """Return a table of ``rows`` rows before their first token."""
        sizes = self.heads.sizes
        key, value = (
            torch.zeros(rows, sizes.key_heads, 0, width // sizes.key_heads, dtype=self.table_dtype, device=device)
            for width in (sizes.keys, sizes.values)
        )
        return CausalTable(key, value, self.window)

    def __call__(self, x: Rows, embedded: Rows, table: CausalTable, tokens: NextTokens) -> Rows:
        around_mixer, around_feed_forward = self.frames
        x = self.start(x, embedded)
        projected = self.heads.project(
            around_mixer.before(x), tokens.count, self.table_dtype, tokens.rotation(self.heads.rotations)
        )
        x = around_mixer.after(self.heads.add_output(self._attend(projected, table, tokens), projected.gate, x))
        return around_feed_forward.after(self.feed_forward(around_feed_forward.before(x), x))

    def _attend(
        self, projected: Projected, table: CausalTable, tokens: NextTokens
    ) -> Float[Tensor, "tokens heads value_width"]:
        assert projected.key is not None and projected.value is not None
        if tokens.number == 1:
            return self._attend_once(projected.query, projected.key, projected.value, table, tokens)
        shape, limit = (tokens.rows, tokens.number), table.slot_limit
        key, value = projected.key.unflatten(0, shape), projected.value.unflatten(0, shape)
        if limit is None or tokens.last < limit:
            _write(table.key, key, tokens, limit)
            _write(table.value, value, tokens, limit)
            slots = min(tokens.last + 1, table.slots)
            keys, values = table.key[:, :, :slots], table.value[:, :, :slots]
            visible = tokens.visible(table, slots, self.bias, wrapped=False)
        else:
            keys, values = (
                torch.cat([old, new.transpose(1, 2)], 2) for old, new in ((table.key, key), (table.value, value))
            )
            visible = tokens.visible(table, table.slots, self.bias, wrapped=True)
            _write(table.key, key, tokens, limit)
            _write(table.value, value, tokens, limit)
        query = projected.query.unflatten(0, shape).transpose(1, 2)
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
        tokens: NextTokens,
    ) -> Float[Tensor, "rows heads value_width"]:
        """Compute softmax(q·k + visible) v of one query per row; q is already scaled.

        Queries that share a key head are consecutive.
        """
        rows, heads, width = query.shape
        if tokens.aligned:
            slot = tokens.first if table.slot_limit is None else tokens.first % table.slot_limit
            table.key.select(2, slot).copy_(key)
            table.value.select(2, slot).copy_(value)
        else:
            _write(table.key, key[:, None], tokens, table.slot_limit)
            _write(table.value, value[:, None], tokens, table.slot_limit)
        slots, key_heads = min(tokens.last + 1, table.slots), key.shape[1]
        group = heads // key_heads
        folded, keys = query.reshape(rows * key_heads, group, width), table.key_view.narrow(2, 0, slots)
        visible = tokens.visible(table, slots, self.bias, wrapped=False)
        if visible is None:
            energy = torch.bmm(folded, keys)
        else:
            added = visible.expand(rows, heads, 1, slots).reshape(rows * key_heads, group, slots)
            energy = torch.baddbmm(added, folded, keys)
        context = torch.bmm(torch.softmax(energy, -1), table.value_view.narrow(1, 0, slots))
        return context.view(rows, heads, value.shape[2])


def _write(
    table: Float[Tensor, "rows key_heads slots width"],
    new: Float[Tensor, "rows tokens key_heads width"],
    tokens: NextTokens,
    limit: int | None,
) -> None:
    """Write keys or values of the tokens into their slots; a window receives the last of them."""
    if tokens.aligned and (limit is None or tokens.last < limit):
        table[:, :, tokens.first : tokens.last + 1].copy_(new.transpose(1, 2))
        return
    position = tokens.position.expand(tokens.rows, -1)
    if limit is not None:
        new, position = new[:, -limit:], position[:, -limit:] % limit
    row = torch.arange(tokens.rows, device=table.device)[:, None]
    table[row, :, position] = new


def bias_by_distance(bias: nn.Module | None, heads: int) -> ByDistance | None:
    """Return a bias of energies as a function of distances j − i; layers that share a bias get equal functions."""
    if isinstance(bias, Alibi):
        return _Slopes(heads)
    return _Buckets(bias) if isinstance(bias, T5CausalBias) else None


@dataclass(frozen=True)
class _Slopes:
    """ALiBi's bias for ``heads`` heads."""

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
