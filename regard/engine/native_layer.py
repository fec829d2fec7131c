"""Layers of a Transformer as operations of a native program."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.attention.heads import AttentionReader, MultiHead, SelfAttention
from regard.attention.mechanisms.dot import Dot
from regard.attention.positions.rotary import Rotary, relayout
from regard.engine.packed import PackedMatrix, stacked
from regard.models.transformer.feed_forward import GATES, PLAIN, FeedForward, GatedFeedForward
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.norms import PostNorm, Residual
from regard.native.program import FilledHeads, Program, Region, fill, filled, filled_heads

NAMES: dict[Any, str] = {function: name for name, function in PLAIN.items()}
GATE_NAMES: dict[Any, str] = {GATES["glu"]: "sigmoid", GATES["geglu"]: "gelu", GATES["swiglu"]: "swish"}


def known_activation(layer: FeedForward | GatedFeedForward) -> bool:
    """Return whether the kernels support this layer's activation."""
    return layer.activation in (NAMES if isinstance(layer, FeedForward) else GATE_NAMES)


class Scratch(NamedTuple):
    """Regions of a record that the layers of a stack share."""

    x: Region
    embedded: Region
    normed: Region
    projected: Region
    context: Region
    inner: Region
    inner_gated: Region

    @classmethod
    def of(cls, program: Program, layers: list[TransformerLayer], width: int) -> Scratch:
        """Reserve regions for the widest of these layers."""
        attentions = [
            part.attention
            for layer in layers
            for part in (layer.mixer, layer.reader)
            if isinstance(part, SelfAttention | AttentionReader)
        ]
        projected = max(map(_projected_width, attentions), default=0)
        context = max((attention.heads * filled(attention.value_width) for attention in attentions), default=0)
        inner = max((filled(layer.feed_forward.up.out_features) for layer in layers), default=0)
        gated = any(isinstance(layer.feed_forward, GatedFeedForward) for layer in layers)
        widths = (width, width, width, projected, context, inner * (1 + gated), inner if gated else 0)
        return cls(*map(program.allocate, widths))


def _projected_width(attention: MultiHead) -> int:
    queries = attention.heads * filled(attention.query_width)
    keys = attention.key_heads * (filled(attention.key_width) + filled(attention.value_width))
    return queries + keys + (0 if attention.gate is None else attention.heads * filled(attention.value_width))


def add_norm(program: Program, layer: nn.Module, x: Region, out: Region) -> None:
    """Add the operation out = norm(x)."""
    if isinstance(layer, nn.LayerNorm):
        program.norm(x, out, layer.weight, layer.bias, layer.eps)
    elif isinstance(layer, nn.RMSNorm):
        program.norm(x, out, layer.weight, None, _epsilon(layer))
    elif x != out:
        program.copy(x, out)


def _epsilon(layer: nn.RMSNorm) -> float:
    return torch.finfo(torch.float32).eps if layer.eps is None else layer.eps


class NativeFrame:
    """Residual frame around a part that reads ``source`` and adds to x."""

    def __init__(self, program: Program, frame: Residual, scratch: Scratch) -> None:
        self._program, self._frame, self._scratch = program, frame, scratch
        self._post = isinstance(frame, PostNorm)
        plain = self._post or isinstance(frame.norm, nn.Identity)
        self.source = scratch.x if plain else scratch.normed
        if not plain:
            add_norm(program, frame.norm, scratch.x, scratch.normed)

    def close(self) -> None:
        if self._post:
            add_norm(self._program, self._frame.norm, self._scratch.x, self._scratch.x)


class Attention:
    """One attention with heads padded to full vectors; queries are returned multiplied by the scale of the energies."""

    def __init__(self, attention: MultiHead, rotary: Rotary | None = None) -> None:
        self.attention, self.rotary = attention, rotary
        self.half = rotary is not None and rotary.layout == "half"
        self.sizes = FilledHeads(
            attention.heads, attention.key_heads, filled(attention.key_width), filled(attention.value_width)
        )
        scale = cast(Dot, attention.mechanism).scale
        self.scale = 1 / math.sqrt(attention.key_width) if scale is None else scale
        self.normed = attention.query_norm is not None
        query = self._reordered(PackedMatrix.of(cast(nn.Linear, attention.query)), attention.heads)
        query = query if self.normed else query.map(lambda x: x * self.scale)
        self.query = query.map(lambda x: filled_heads(x, attention.heads))
        key = self._reordered(PackedMatrix.of(cast(nn.Linear, attention.key)), attention.key_heads)
        self.key = key.map(lambda x: filled_heads(x, attention.key_heads))
        value = PackedMatrix.of(cast(nn.Linear, attention.value))
        self.value = value.map(lambda x: filled_heads(x, attention.key_heads))
        self.gate = None
        if attention.gate is not None:
            self.gate = PackedMatrix.of(attention.gate).map(lambda x: filled_heads(x, attention.heads))

    def _reordered(self, matrix: PackedMatrix, heads: int) -> PackedMatrix:
        return matrix.map(lambda x: relayout(x, heads=heads, to="interleaved")) if self.half else matrix

    def add_own(
        self, program: Program, scratch: Scratch, source: Region, layer: int | None, angles: Tensor | None
    ) -> list[Any]:
        """Add self-attention over the cells of a layer, or over the rows of a sequence if ``layer`` is None.

        Returns:
            the operations that look up angles.
        """
        queries, keys, values = (len(matrix.weight) for matrix in (self.query, self.key, self.value))
        parts = [self.query, self.key, self.value, *([self.gate] if self.gate else [])]
        whole = stacked(*parts)
        projected = scratch.projected.part(0, len(whole.weight))
        program.product(source, projected, fill(whole.weight), whole.bias)
        query, key = projected.part(0, queries), projected.part(queries, keys)
        value = projected.part(queries + keys, values)
        self._norm(program, self.attention.query_norm, query, self.scale)
        self._norm(program, self.attention.key_norm, key)
        rotations = []
        if angles is not None:
            for region, heads in ((query, self.sizes.heads), (key, self.sizes.key_heads)):
                rotations.append(program.rotate(region, angles, heads))
        context = scratch.context.part(0, self.sizes.heads * self.sizes.value_width)
        if layer is None:
            program.attend_rows(query, key, context, self.sizes)
        else:
            program.keep(key, value, self.sizes, layer)
            program.attend(query, context, self.sizes, layer)
        self._close(program, scratch, context, projected.part(queries + keys + values, 0))
        return rotations

    def add_reading(self, program: Program, scratch: Scratch, source: Region, layer: int) -> None:
        """Add attention to the source of a layer."""
        queries = len(self.query.weight)
        whole = stacked(self.query, *([self.gate] if self.gate else []))
        projected = scratch.projected.part(0, len(whole.weight))
        program.product(source, projected, fill(whole.weight), whole.bias)
        query = projected.part(0, queries)
        self._norm(program, self.attention.query_norm, query, self.scale)
        context = scratch.context.part(0, self.sizes.heads * self.sizes.value_width)
        program.attend(query, context, self.sizes, layer, source=True)
        self._close(program, scratch, context, projected.part(queries, 0))

    def add_source(self, program: Program, states: Region, out: Region, layer: int) -> None:
        """Add the keys and values of a source row, which are written into the tables of a layer."""
        whole = stacked(self.key, self.value)
        keys, values = len(self.key.weight), len(self.value.weight)
        program.product(states, out, fill(whole.weight), whole.bias)
        self._norm(program, self.attention.key_norm, out.part(0, keys))
        program.keep(out.part(0, keys), out.part(keys, values), self.sizes, layer, source=True)

    def _norm(self, program: Program, norm: nn.RMSNorm | None, x: Region, scale: float = 1.0) -> None:
        if norm is None:
            return
        gains = norm.weight.detach() * scale
        if self.half and norm is not self.attention.context_norm:
            gains = relayout(gains, heads=1, to="interleaved")
        program.norm(x, x, gains, None, _epsilon(norm), groups=x.width // filled(len(gains)))

    def _close(self, program: Program, scratch: Scratch, context: Region, gate: Region) -> None:
        self._norm(program, self.attention.context_norm, context)
        if self.gate:
            program.gate(gate, context)
        output = PackedMatrix.of(cast(nn.Linear, self.attention.output))
        weight = filled_heads(output.weight.t(), self.sizes.heads).t()
        program.product(context, scratch.x, weight, output.bias, add=True)


def feed_forward_layer(
    program: Program, scratch: Scratch, layer: FeedForward | GatedFeedForward, source: Region
) -> None:
    """Add x += FFN(source)."""
    inner = filled(layer.up.out_features)
    down = PackedMatrix.of(layer.down)
    if isinstance(layer, FeedForward):
        up = PackedMatrix.of(layer.up)
        program.product(
            source,
            scratch.inner.part(0, inner),
            fill(up.weight),
            up.bias,
            activation=cast(Any, NAMES[layer.activation]),
        )
        hidden = scratch.inner.part(0, inner)
    else:
        both = stacked(*(PackedMatrix(filled_heads(linear.weight, 1)) for linear in (layer.gate, layer.up)))
        program.product(source, scratch.inner.part(0, 2 * inner), fill(both.weight))
        hidden = scratch.inner_gated.part(0, inner)
        halves = scratch.inner.part(0, inner), scratch.inner.part(inner, inner)
        program.glu(*halves, hidden, cast(Any, GATE_NAMES[layer.activation]))
    program.product(hidden, scratch.x, fill(down.weight), down.bias, add=True)
