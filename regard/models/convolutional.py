"""The convolutional decoder of Gehring et al. 2017: gated convolutions that read the source in every layer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.contract import (
    Abilities,
    Decoded,
    Decoder,
    Encoded,
    Mechanism,
    Memory,
    Mixed,
    Mixer,
    Reader,
    Rows,
    SourceKeys,
    sentences,
)
from regard.attention.mask import Padding, Span
from regard.state import State

__all__ = [
    "ConvolutionalDecoder",
    "ConvolutionalLayer",
    "ConvolutionalReader",
    "ConvolutionalState",
    "GatedConvolution",
]

HALF = math.sqrt(0.5)  # keeps the variance of a sum of two


class GatedConvolution(Mixer):
    """v(W [x_{i−k+1}, …, x_i] + b) with the gated linear unit v([A; B]) = A ⊗ σ(B) (Gehring et al. 2017, §3.2).

    Causal: a position sees itself and ``kernel`` − 1 before it, zeros before the first. State: those last inputs;
    padded columns do not enter it. Cost: 2·kernel·width² a position.
    """

    def __init__(self, width: int, *, kernel: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.convolution = nn.Conv1d(width, 2 * width, kernel)

    def can(self) -> Abilities:
        return Abilities(
            causal=True,
            cross=False,
            stream="exact",
            weights=False,
            independent=False,
            normalised=False,
            fused=True,
        )

    def start(self, rows: int) -> Float[Tensor, "{rows} {self.kernel}-1 width"]:
        weight = self.convolution.weight
        return weight.new_zeros(rows, self.kernel - 1, weight.shape[1])

    def forward(
        self,
        x: Float[Tensor, "rows length width"],
        span: Span,
        state: Float[Tensor, "rows {self.kernel}-1 width"],
    ) -> Mixed:
        columns = torch.cat([state, x], 1)
        gated = self.convolution(columns.transpose(1, 2)).transpose(1, 2)
        kept = span.length[:, None] + torch.arange(self.kernel - 1, device=x.device)
        past = columns.gather(1, kept[..., None].expand(-1, -1, x.shape[2]))
        return Mixed(nn.functional.glu(gated, -1), past)


class ConvolutionalReader(Reader):
    """a_ij = softmax_j(d_i · z_j), c_i = √S · Σ_j a_ij (z_j + e_j)·√½ (Gehring et al. 2017, Eq. 1 and 2, §3.5)

    with z the encoder's states, e its embeddings and S the source's length: keys are not values. ``mechanism``:
    the paper's is ``Dot(scale=1)``. The factors √½ and √S are the authors' code (§3.5 prints S·√(1/S) = √S).
    """

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__()
        if not mechanism.can().independent:
            raise ValueError(f"{type(mechanism).__name__} attention asks in turn; this reader asks all at once")
        self.mechanism = mechanism

    def prepare(self, encoded: Encoded) -> SourceKeys:
        value = (encoded.states + encoded.embedded) * HALF
        return SourceKeys(encoded.states[:, None], value[:, None], encoded.span.valid)

    def start(self, memory: SourceKeys, rows: Rows) -> State:
        return ()

    def forward(
        self, query: Float[Tensor, "rows length width"], span: Span, memory: SourceKeys, rows: Rows, state: State
    ) -> Mixed:
        asked = rows.scatter(query).flatten(1, 2)[:, None]  # (sentences, 1, width·n, d)
        asking = Span.of(span.valid.new_ones(rows.sentences, asked.shape[2]))
        bound = Padding().bind(asking, Span.of(memory.valid))
        attended = self.mechanism(asked, memory.key, memory.value, bound)
        scaled = attended.context[:, 0] * bound.key_length[:, None, None].to(query.dtype).sqrt()
        return Mixed(rows.gather(scaled.unflatten(1, (rows.width, query.shape[1]))), state)


class ConvolutionalLayer(nn.Module):
    """z = v(conv(h)), d = (W_d z + b_d + g)·√½, c read with d, then ((z + c)·√½ + h)·√½; g the target embedding."""

    def __init__(self, width: int, mixer: Mixer, reader: Reader) -> None:
        super().__init__()
        self.mixer, self.reader = mixer, reader
        self.query = nn.Linear(width, width)

    def forward(
        self,
        h: Float[Tensor, "rows length width"],
        embedded: Float[Tensor, "rows length width"],
        span: Span,
        memory: Memory,
        rows: Rows,
        state: tuple[State, State],
    ) -> tuple[Float[Tensor, "rows length width"], tuple[State, State]]:
        mixed = self.mixer(h, span, state[0])
        asked = (self.query(mixed.output) + embedded) * HALF
        read = self.reader(asked, span, memory, rows, state[1])
        return ((mixed.output + read.output) * HALF + h) * HALF, (mixed.state, read.state)


class ConvolutionalState(NamedTuple):
    """Per layer the states of mixer and reader; ``length``, the position; ``rows``, the sentence."""

    layers: tuple[tuple[State, State], ...]
    length: Int[Tensor, "rows"]
    rows: Int[Tensor, "rows"]


class ConvolutionalDecoder(Decoder):
    """Layers over the embedded target; the query of every layer is built from that embedding, too.

    ``embedding`` maps tokens and positions to (rows, n, width).
    """

    def __init__(self, embedding: nn.Module, layers: list[ConvolutionalLayer]) -> None:
        super().__init__()
        self.embedding, self.layers = embedding, nn.ModuleList(layers)

    @property
    def stack(self) -> Iterable[ConvolutionalLayer]:
        return cast(Iterable[ConvolutionalLayer], self.layers)

    def prepare(self, encoded: Encoded) -> Memory:
        return tuple(layer.reader.prepare(encoded) for layer in self.stack)

    def start(self, memory: Memory, rows: Int[Tensor, "rows"]) -> ConvolutionalState:
        read_by = Rows.of(rows, sentences(memory))
        layers = tuple(
            (layer.mixer.start(len(rows)), layer.reader.start(source, read_by))
            for layer, source in zip(self.stack, memory, strict=True)
        )
        return ConvolutionalState(layers, torch.zeros_like(rows), rows)

    def forward(
        self,
        tokens: Int[Tensor, "rows length"],
        memory: Memory,
        state: ConvolutionalState,
        *,
        valid: Bool[Tensor, "rows length"] | None = None,
    ) -> Decoded:
        valid = torch.ones_like(tokens, dtype=torch.bool) if valid is None else valid
        span = Span(state.length, valid)
        rows = Rows.of(state.rows, sentences(memory))
        embedded = self.embedding(tokens, span.position)
        h, layers = embedded, []
        for layer, source, before in zip(self.stack, memory, state.layers, strict=True):
            h, after = layer(h, embedded, span, source, rows, before)
            layers.append(after)
        return Decoded(h, ConvolutionalState(tuple(layers), state.length + span.length, state.rows))
