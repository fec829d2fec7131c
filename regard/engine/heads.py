"""Heads of an attention: queries, keys, values and gates from fused projections, and the output projection."""

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

MIN_POSITIONS = 256  # of the first table of rotations

Normed = Callable[[Tensor], Tensor]
Rotation = Complex[Tensor, "*#rows 1 half"]


class HeadSizes(NamedTuple):
    """Numbers of heads, and the widths of their projections in features of all heads."""

    heads: int  # of queries
    key_heads: int
    queries: int
    keys: int
    values: int

    @property
    def group(self) -> int:
        """Number of query heads that share one key head."""
        return self.heads // self.key_heads

    @classmethod
    def of(cls, attention: MultiHead) -> HeadSizes:
        heads, key_heads = attention.heads, attention.key_heads
        widths = heads * attention.query_width, key_heads * attention.key_width, key_heads * attention.value_width
        return cls(heads, key_heads, *widths)


class Rotations:
    """Rotary positions as unit complex numbers that multiply pairs of features; a table that grows."""

    def __init__(self, rotary: Rotary, like: Tensor) -> None:
        self._rotary = rotary
        self._wide = torch.complex128 if like.dtype == torch.float64 else torch.complex64
        self._table = self._first(MIN_POSITIONS, like.device)

    def _first(self, positions: int, device: torch.device) -> Complex[Tensor, "positions 1 half"]:
        angle = self._rotary.angles(torch.arange(positions, device=device)[None])[0, :, None]
        return torch.polar(torch.ones_like(angle), angle).to(self._wide)

    def between(self, begin: int, end: int) -> Complex[Tensor, "positions 1 half"]:
        """Return the rotations of consecutive positions."""
        if end > len(self._table):
            self._table = self._first(2 * end, self._table.device)
        return self._table[begin:end]

    def at(self, position: Int[Tensor, "*rows"], highest: int) -> Complex[Tensor, "*rows 1 half"]:
        """Return the rotations of these positions, none of which exceeds ``highest``."""
        return self.between(0, highest + 1)[position]


def shared_rotations(layers: Iterable[TransformerLayer], like: torch.dtype) -> Rotations | None:
    """Return the rotations of a stack, whose layers all have the same rotary positions; None without them."""
    for layer in layers:
        rotary = layer.mixer.rotary if isinstance(layer.mixer, SelfAttention) else None
        if rotary is not None:
            return Rotations(rotary, next(layer.parameters()).new_empty(0, dtype=like))
    return None


class Projected(NamedTuple):
    """Projections of rows, per head; ``key`` and ``value`` are None if they come from other rows."""

    query: Float[Tensor, "rows heads query_width"]
    key: Float[Tensor, "rows key_heads key_width"] | None = None
    value: Float[Tensor, "rows key_heads value_width"] | None = None
    gate: Float[Tensor, "rows gated"] | None = None


class FastHeads:
    """The projections of one attention; queries are returned multiplied by the scale of the energies.

    ``is_self_attention``: keys and values come from the same rows as queries, in one product. Rotary pairs are always
    adjacent here, for every layout of the model: queries and keys are reordered in the same way.
    """

    def __init__(
        self,
        attention: MultiHead,
        *,
        is_self_attention: bool,
        rotary: Rotary | None = None,
        rotations: Rotations | None = None,
    ) -> None:
        self.sizes, self.rotations = HeadSizes.of(attention), rotations
        half = rotary is not None and rotary.layout == "half"
        query, key, value, output = (
            PackedMatrix.of(cast(nn.Linear, layer))
            for layer in (attention.query, attention.key, attention.value, attention.output)
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
        parts = [query, key, value, *gate] if is_self_attention else [query, *gate]
        self.projection = PackedLinear(stacked(*parts), alone=True)
        self.key_value = None if is_self_attention else PackedLinear(stacked(key, value))
        self.output = PackedLinear(output, alone=True)

    def project(self, x: Rows, count: int, dtype: torch.dtype, rotation: Rotation | None = None) -> Projected:
        """Project the first ``count`` rows to queries, and to keys, values and gates if used, in ``dtype``.

        ``rotation``: of each row's position, or one for all rows.
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
        queries_keys, value = projected.split_with_sizes(widths, 1)
        value = value.view(count, sizes.key_heads, sizes.values // sizes.key_heads)
        # Queries and keys have one width.
        heads = queries_keys.view(count, sizes.heads + sizes.key_heads, sizes.queries // sizes.heads)
        if self.query_norm is None or self.key_norm is None:
            heads = heads if rotation is None else _rotate(heads, rotation)
            query, key = heads.split_with_sizes([sizes.heads, sizes.key_heads], 1)
            return Projected(query, key, value, gate)
        query, key = heads.split_with_sizes([sizes.heads, sizes.key_heads], 1)
        query, key = self.query_norm(query), self.key_norm(key)
        if rotation is not None:
            query, key = _rotate(query, rotation), _rotate(key, rotation)
        return Projected(query, key, value, gate)

    def keys_values(
        self, states: Float[Tensor, "positions width"]
    ) -> tuple[Float[Tensor, "positions key_heads key_width"], Float[Tensor, "positions key_heads value_width"]]:
        """Return keys and values of the positions of another sequence."""
        assert self.key_value is not None
        sizes = self.sizes
        key, value = self.key_value(states).split([sizes.keys, sizes.values], 1)
        key, value = (x.unflatten(1, (sizes.key_heads, -1)) for x in (key, value))
        return key if self.key_norm is None else self.key_norm(key), value

    def add_output(
        self,
        context: Float[Tensor, "rows heads value_width"],
        gate: Float[Tensor, "rows gated"] | None,
        residual: Float[Tensor, "padded width"],
    ) -> Float[Tensor, "padded width"]:
        """Return residual + W^O of the normalized and gated context; padding rows get the output of a context of 0."""
        if self.context_norm is not None:
            context = self.context_norm(context)
        rows = context.flatten(1)
        rows = rows if gate is None else rows * gate
        return self.output.add_to(residual, padded(rows, len(residual)).to(residual.dtype))


def _rotate(
    x: Float[Tensor, "*rows heads width"], rotation: Complex[Tensor, "*#rows 1 half"]
) -> Float[Tensor, "*rows heads width"]:
    """Rotate each row of x by its position; in place if x has the precision of the rotations."""
    wide = torch.float64 if rotation.dtype == torch.complex128 else torch.float32
    # view_as_complex needs even strides, which values of an odd width between the rows would break.
    x = x.clone(memory_format=torch.contiguous_format) if x.stride(0) % 2 else x
    same = x.to(wide)
    torch.view_as_complex(same.view(*x.shape[:-1], x.shape[-1] // 2, 2)).mul_(rotation)
    return same.to(x.dtype)


def _side_by_side(matrix: PackedMatrix, heads: int) -> PackedMatrix:
    """Return a query or key projection in which pairs that were half a head apart are adjacent."""
    return matrix.map(lambda x: relayout(x, heads=heads, to="interleaved"))


def _head_norm(layer: nn.RMSNorm | None, *, half: bool = False, scale: float = 1.0) -> Normed | None:
    """Return the norm of each head, its gains times ``scale``.

    ``half``: the features are reordered as in ``_side_by_side``.
    """
    if layer is None:
        return None
    layer = deepcopy(layer)
    if half:
        layer.weight.data = relayout(layer.weight.data, heads=1, to="interleaved")
    return norm(layer, scale)
