"""Convolutional decoder (Gehring et al. 2017): gated convolutions with attention to the source in every layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.attention.contract import (
    Decoded,
    Decoder,
    Encoded,
    Memory,
    Mixed,
    Mixer,
    Reader,
    RowMap,
    SourceKeys,
    sentences,
)
from regard.attention.span import Span
from regard.core.state import State
from regard.models.convolutional.gated_convolution import HALF, Convolution, gain, residual, scale_gradient
from regard.models.dropout import Dropout
from regard.models.input import Input


class ConvolutionalReader(Reader):
    """a_ij = softmax_j(d_i · z_j), c_i = √S · Σ_j a_ij (z_j + e_j)·√½ (Gehring et al. 2017, Eq. 1 and 2, §3.5)

    with z the encoder's states, e the source embeddings and S the source's length: keys and values differ.
    ``attention`` is a reader with the memory ``SourceKeys``: the paper's has one head of ``Dot(scale=1)`` and no
    projections. The factors √½ and √S are those of the authors' code (§3.5 prints S·√(1/S) = √S).
    """

    def __init__(self, attention: Reader) -> None:
        super().__init__()
        self.attention, self.width = attention, attention.width

    def prepare(self, encoded: Encoded) -> SourceKeys:
        keys: SourceKeys = self.attention.prepare(encoded)
        values: SourceKeys = self.attention.prepare(encoded._replace(states=(encoded.states + encoded.embedded) * HALF))
        return keys._replace(value=values.value)

    def start(self, memory: SourceKeys, rows: RowMap) -> State:
        return self.attention.start(memory, rows)

    def forward(
        self, query: Float[Tensor, "rows length width"], span: Span, memory: SourceKeys, rows: RowMap, state: State
    ) -> Mixed:
        read: Mixed = self.attention(query, span, memory, rows, state)
        length = memory.span.length.index_select(0, rows.sentence)
        return read._replace(output=read.output * length[:, None, None].to(query.dtype).sqrt())


class ConvolutionalLayer(nn.Module):
    """z = v(conv(h)), d = (W_d z + b_d + g)·√½, c read with d, then ((z + W_c c + b_c)·√½ + R h)·√½

    (Gehring et al. 2017, §3.2–3.5); g is the target embedding, R the identity, or linear if ``in_width``, the width
    of h, is not ``width``. ``embedding`` is the width of g. Differs from the paper, which adds c without W_c: like the
    authors' code, W_c projects c to the layer's width.
    """

    def __init__(
        self, mixer: Mixer, reader: Reader, *, width: int, embedding: int, in_width: int | None = None
    ) -> None:
        super().__init__()
        self.mixer, self.reader = mixer, reader
        self.query, self.context = Convolution(width, embedding), Convolution(reader.width, width)
        self.residual = residual(in_width or width, width)

    def prepare(self, encoded: Encoded) -> Memory:
        """Return the reader's memory of each sentence."""
        return self.reader.prepare(encoded)

    def start(self, rows: int, memory: Memory, read_by: RowMap) -> tuple[State, State]:
        """Return the states of mixer and reader before the first position of ``rows`` rows, which read ``memory``."""
        return self.mixer.start(rows), self.reader.start(memory, read_by)

    def forward(
        self,
        h: Float[Tensor, "rows length in_width"],
        embedded: Float[Tensor, "rows length embedding"],
        span: Span,
        memory: Memory,
        rows: RowMap,
        state: tuple[State, State],
    ) -> tuple[Float[Tensor, "rows length width"], tuple[State, State]]:
        mixed: Mixed = self.mixer(h, span, state[0])
        query = (self.query(mixed.output) + embedded) * HALF
        read: Mixed = self.reader(query, span, memory, rows, state[1])
        z = (mixed.output + self.context(read.output)) * HALF
        return (z + self.residual(h)) * HALF, (mixed.state, read.state)


class ConvolutionalState(NamedTuple):
    """States of mixer and reader per layer; ``length``: the position; ``rows``: the sentence of each row."""

    layers: tuple[tuple[State, State], ...]
    length: Int[Tensor, "rows"]
    rows: Int[Tensor, "rows"]


class ConvolutionalDecoder(Decoder):
    """Layers over the embedded target; the query of every layer includes the target embedding.

    Gradients of the encoder's states are divided by twice the number of layers, since every layer reads these states
    (Gehring et al. 2017, §3.5; the 2 is from the authors' code).

    ``layers``: each layer's input is as wide as the previous layer's output.
    ``width``: width of the embeddings and of the features.
    ``first_width``, ``last_width``: width of the first layer's input and of the last layer's output.
    ``dropout``: probability, on the features.
    """

    def __init__(
        self,
        embedding: Input,
        layers: Sequence[ConvolutionalLayer],
        *,
        width: int,
        first_width: int,
        last_width: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.embedding, self.layers, self.dropout = embedding, nn.ModuleList(layers), Dropout(dropout)
        self.input_proj, self.output_proj = (
            Convolution(width, first_width, gain=gain(dropout)),
            Convolution(last_width, width),
        )

    @property
    def stack(self) -> Iterable[ConvolutionalLayer]:
        return cast(Iterable[ConvolutionalLayer], self.layers)

    def prepare(self, encoded: Encoded) -> Memory:
        states = scale_gradient(encoded.states, 1 / (2 * len(self.layers)))
        return tuple(layer.prepare(encoded._replace(states=states)) for layer in self.stack)

    def start(self, memory: Memory, rows: Int[Tensor, "rows"]) -> ConvolutionalState:
        read_by = RowMap.of(rows, sentences(memory))
        layers = tuple(
            layer.start(len(rows), source, read_by) for layer, source in zip(self.stack, memory, strict=True)
        )
        return ConvolutionalState(layers, torch.zeros_like(rows), rows)

    def forward(
        self, inputs: Shaped[Tensor, "rows length *features"], span: Span, memory: Memory, state: ConvolutionalState
    ) -> Decoded:
        rows = RowMap.of(state.rows, sentences(memory))
        embedded, span, _ = self.embedding(inputs, span)
        h, layers = self.input_proj(embedded), []
        for layer, source, before in zip(self.stack, memory, state.layers, strict=True):
            h, after = layer(h, embedded, span, source, rows, before)
            layers.append(after)
        features = self.dropout(self.output_proj(h))
        return Decoded(features, ConvolutionalState(tuple(layers), state.length + span.length, state.rows))
