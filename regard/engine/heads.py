"""Heads of an attention: queries, keys, values and gates of rows from fused projections, and the way back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import NamedTuple, cast

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mechanisms.dot import Dot
from regard.attention.positions.rotary import Rotary, relayout
from regard.engine.packed import PackedLinear, PackedMatrix, stacked
from regard.engine.parts import Rows, norm, padded
from regard.models.transformer.layer import TransformerLayer

FIRST_TURNS = 256  # positions

Normed = Callable[[Tensor], Tensor]
Turn = Complex[Tensor, "*#rows 1 half"]


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


class Turns:
    """Rotary positions as unit complex numbers, by which pairs of features are multiplied; a table that grows."""

    def __init__(self, rotary: Rotary, like: Tensor) -> None:
        self._rotary = rotary
        self._wide = torch.complex128 if like.dtype == torch.float64 else torch.complex64
        self._table = self._first(FIRST_TURNS, like.device)

    def _first(self, positions: int, device: torch.device) -> Complex[Tensor, "positions 1 half"]:
        angle = self._rotary.angles(torch.arange(positions, device=device)[None])[0, :, None]
        return torch.polar(torch.ones_like(angle), angle).to(self._wide)

    def between(self, begin: int, end: int) -> Complex[Tensor, "positions 1 half"]:
        """The turns of consecutive positions."""
        if end > len(self._table):
            self._table = self._first(2 * end, self._table.device)
        return self._table[begin:end]

    def at(self, position: Int[Tensor, "*rows"], highest: int) -> Complex[Tensor, "*rows 1 half"]:
        """The turns of these positions, none of which is above ``highest``."""
        return self.between(0, highest + 1)[position]


def shared_turns(layers: Iterable[TransformerLayer], like: torch.dtype) -> Turns | None:
    """The turns of a stack, all of whose layers have the same rotary positions; None without."""
    for layer in layers:
        rotary = layer.mixer.rotary if isinstance(layer.mixer, SelfAttention) else None
        if rotary is not None:
            return Turns(rotary, next(layer.parameters()).new_empty(0, dtype=like))
    return None


class Projected(NamedTuple):
    """Projections of rows, head by head; ``key`` and ``value`` are None where they are those of other rows."""

    query: Float[Tensor, "rows heads query_width"]
    key: Float[Tensor, "rows key_heads key_width"] | None = None
    value: Float[Tensor, "rows key_heads value_width"] | None = None
    gate: Float[Tensor, "rows gated"] | None = None


class FastHeads:
    """The projections of one attention; queries leave it multiplied by the scale of the energies.

    ``of_self``: keys and values are made of the same rows as queries, in one product. Rotary pairs always lie side by
    side here, whatever the layout of the model's: queries and keys are reordered alike.
    """

    def __init__(
        self, attention: MultiHead, *, of_self: bool, rotary: Rotary | None = None, turns: Turns | None = None
    ) -> None:
        self.sizes, self.turns = HeadSizes.of(attention), turns
        half = rotary is not None and rotary.layout == "half"
        query, key, value, output = (
            PackedMatrix.of(cast(nn.Linear, each))
            for each in (attention.query, attention.key, attention.value, attention.output)
        )
        if half:
            query = _side_by_side(query, self.sizes.heads)
            key = _side_by_side(key, self.sizes.key_heads)
        scale = cast(Dot, attention.mechanism).scale
        scale = 1 / math.sqrt(attention.key_width) if scale is None else scale
        normed = attention.query_norm is not None
        self.query_norm = _head_norm(attention.query_norm, half=half, scale=scale)
        self.key_norm = _head_norm(attention.key_norm, half=half)
        self.context_norm = _head_norm(attention.context_norm)
        query = query if normed else query.map(lambda x: x * scale)
        gate = [] if attention.gate is None else [PackedMatrix.of(attention.gate)]
        self.gated = len(gate[0].weight) if gate else 0
        parts = [query, key, value, *gate] if of_self else [query, *gate]
        self.projection = PackedLinear(stacked(*parts), alone=True)
        self.key_value = None if of_self else PackedLinear(stacked(key, value))
        self.output = PackedLinear(output, alone=True)

    def project(self, x: Rows, count: int, dtype: torch.dtype, turn: Turn | None = None) -> Projected:
        """Queries, and where there are any keys, values and gates, of the first ``count`` rows, in ``dtype``.

        ``turn``: of each row's position, or one for all.
        """
        sizes, projected = self.sizes, self.projection(x)
        projected = (projected[:count] if len(projected) > count else projected).to(dtype)
        gate = None
        if self.gated:
            projected, gate = projected.split_with_sizes([projected.shape[1] - self.gated, self.gated], 1)
            gate = gate.sigmoid()
        if self.key_value is not None:
            query = projected.view(count, sizes.heads, sizes.queries // sizes.heads)
            return Projected(query if self.query_norm is None else self.query_norm(query), gate=gate)
        widths = [sizes.queries + sizes.keys, sizes.values]
        together, value = projected.split_with_sizes(widths, 1)
        value = value.view(count, sizes.key_heads, sizes.values // sizes.key_heads)
        # Queries and keys have one width.
        both = together.view(count, sizes.heads + sizes.key_heads, sizes.queries // sizes.heads)
        if self.query_norm is None or self.key_norm is None:
            both = both if turn is None else _turned(both, turn)
            query, key = both.split_with_sizes([sizes.heads, sizes.key_heads], 1)
            return Projected(query, key, value, gate)
        query, key = both.split_with_sizes([sizes.heads, sizes.key_heads], 1)
        query, key = self.query_norm(query), self.key_norm(key)
        if turn is not None:
            query, key = _turned(query, turn), _turned(key, turn)
        return Projected(query, key, value, gate)

    def keys_values(
        self, states: Float[Tensor, "columns width"]
    ) -> tuple[Float[Tensor, "columns key_heads key_width"], Float[Tensor, "columns key_heads value_width"]]:
        """Keys and values of the columns of another sequence."""
        assert self.key_value is not None
        sizes = self.sizes
        key, value = self.key_value(states).split([sizes.keys, sizes.values], 1)
        key, value = (x.unflatten(1, (sizes.key_heads, -1)) for x in (key, value))
        return key if self.key_norm is None else self.key_norm(key), value

    def close(
        self,
        context: Float[Tensor, "rows heads value_width"],
        gate: Float[Tensor, "rows gated"] | None,
        residual: Float[Tensor, "padded width"],
    ) -> Float[Tensor, "padded width"]:
        """residual + W^O of the normalized and gated context; rows of padding get that of 0."""
        if self.context_norm is not None:
            context = self.context_norm(context)
        rows = context.flatten(1)
        rows = rows if gate is None else rows * gate
        return self.output.add_to(residual, padded(rows, len(residual)).to(residual.dtype))


def _turned(
    x: Float[Tensor, "*rows heads width"], turn: Complex[Tensor, "*#rows 1 half"]
) -> Float[Tensor, "*rows heads width"]:
    """x of each row turned by its position; written over x where that has the precision of the turns."""
    wide = torch.float64 if turn.dtype == torch.complex128 else torch.float32
    x = x.clone(memory_format=torch.contiguous_format) if x.stride(0) % 2 else x  # values of an odd width lie between
    same = x.to(wide)
    torch.view_as_complex(same.view(*x.shape[:-1], x.shape[-1] // 2, 2)).mul_(turn)
    return same.to(x.dtype)


def _side_by_side(matrix: PackedMatrix, heads: int) -> PackedMatrix:
    """A query or key projection whose pairs lie half a head apart, with each pair side by side."""
    return matrix.map(lambda x: relayout(x, heads=heads, to="interleaved"))


def _head_norm(layer: nn.RMSNorm | None, *, half: bool = False, scale: float = 1.0) -> Normed | None:
    """The norm of each head, its gains times ``scale``; ``half``: of features that ``_side_by_side`` reorders."""
    if layer is None:
        return None
    layer = deepcopy(layer)
    if half:
        layer.weight.data = relayout(layer.weight.data, heads=1, to="interleaved")
    return norm(layer, scale)
