"""Encoder and decoder of the Transformer (Vaswani et al. 2017, §3)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.contract import Decoded, Decoder, Encoded, Encoder, Memory, Mixer, Reader, RowMap, sentences
from regard.attention.mask import Span
from regard.attention.positions.absolute import Position
from regard.core.state import State, truncate
from regard.models.dropout import Dropout
from regard.models.transformer.feed_forward import FeedForward, GatedFeedForward
from regard.models.transformer.norms import Residual

__all__ = [
    "DecoderLayer", "Embedding", "EncoderLayer", "TransformerDecoder", "TransformerEncoder",
    "TransformerState",
]  # fmt: skip


class Embedding(nn.Module):
    """Dropout(scale · E[token] + position) (§3.4, §3.5, §5.4), where ``scale`` is √d_model unless given.

    ``weight`` may be shared with the output.
    """

    def __init__(self, weight: nn.Parameter, position: Position, *, dropout: float, scale: float | None = None) -> None:
        super().__init__()
        self.weight, self.position, self.dropout = weight, position, Dropout(dropout)
        self.scale = math.sqrt(weight.shape[1]) if scale is None else scale

    def forward(
        self, tokens: Int[Tensor, "batch length"], position: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length width"]:
        embedded = nn.functional.embedding(tokens, self.weight) * self.scale
        return self.dropout(self.position(embedded, position))


class EncoderLayer(nn.Module):
    """Mixer over one sequence, then feed-forward, each inside a residual connection."""

    def __init__(
        self, mixer: Mixer, feed_forward: FeedForward | GatedFeedForward, frames: tuple[Residual, Residual]
    ) -> None:
        super().__init__()
        self.mixer, self.feed_forward = mixer, feed_forward
        self.around_mixer, self.around_feed_forward = frames

    def forward(
        self, x: Float[Tensor, "batch length width"], span: Span, state: State | None = None
    ) -> tuple[Float[Tensor, "batch length width"], State]:
        """The columns after the layer, and the mixer's state after them; without a state they are the first."""
        state = self.mixer.start(len(x)) if state is None else state
        mixed = self.mixer(self.around_mixer.before(x), span, state)
        x = self.around_mixer.after(x, mixed.output)
        return self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x))), mixed.state


class TransformerEncoder(Encoder):
    """N layers over the embedded source; ``norm``: the last norm of a pre-norm stack, else the identity."""

    def __init__(self, embedding: Embedding, layers: list[EncoderLayer], norm: nn.Module) -> None:
        super().__init__()
        self.embedding, self.layers, self.norm = embedding, nn.ModuleList(layers), norm
        self.width = self.summary = embedding.weight.shape[1]

    def forward(self, tokens: Int[Tensor, "sentences length"], valid: Bool[Tensor, "sentences length"]) -> Encoded:
        span = Span.of(valid)
        embedded = self.embedding(tokens, span.position)
        x = embedded
        for layer in self.layers:
            x, _ = layer(x, span)
        states = self.norm(x)
        weight = valid[..., None].to(states.dtype)
        mean = (states * weight).sum(1) / weight.sum(1).clamp_min(1)
        return Encoded(states, embedded, mean, span)


class DecoderLayer(nn.Module):
    """Mixer over the target, reader of the source, feed-forward, each inside a residual connection."""

    def __init__(
        self,
        mixer: Mixer,
        reader: Reader,
        feed_forward: FeedForward | GatedFeedForward,
        frames: tuple[Residual, Residual, Residual],
    ) -> None:
        super().__init__()
        self.mixer, self.reader, self.feed_forward = mixer, reader, feed_forward
        self.around_mixer, self.around_reader, self.around_feed_forward = frames

    def forward(
        self,
        x: Float[Tensor, "rows length width"],
        span: Span,
        memory: Memory,
        rows: RowMap,
        state: tuple[State, State],
    ) -> tuple[Float[Tensor, "rows length width"], tuple[State, State]]:
        mixed = self.mixer(self.around_mixer.before(x), span, state[0])
        x = self.around_mixer.after(x, mixed.output)
        read = self.reader(self.around_reader.before(x), span, memory, rows, state[1])
        x = self.around_reader.after(x, read.output)
        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, (mixed.state, read.state)


class TransformerState(NamedTuple):
    """States of mixer and reader per layer; ``length``: the position; ``rows``: the sentence of each row."""

    layers: tuple[tuple[State, State], ...]
    length: Int[Tensor, "rows"]
    rows: Int[Tensor, "rows"]

    def truncate(self, length: Int[Tensor, "rows"]) -> TransformerState:
        # Readers of the Transformer have no state; one that has refuses to be truncated.
        return TransformerState(truncate(self.layers, length), torch.minimum(self.length, length), self.rows)


class TransformerDecoder(Decoder):
    """N layers over the embedded target, each of which reads the encoder's output."""

    def __init__(self, embedding: Embedding, layers: list[DecoderLayer], norm: nn.Module) -> None:
        super().__init__()
        self.embedding, self.layers, self.norm = embedding, nn.ModuleList(layers), norm
        self.width = embedding.weight.shape[1]

    @property
    def stack(self) -> Iterable[DecoderLayer]:
        return cast(Iterable[DecoderLayer], self.layers)

    def prepare(self, encoded: Encoded) -> Memory:
        return tuple(layer.reader.prepare(encoded) for layer in self.stack)

    def start(self, memory: Memory, rows: Int[Tensor, "rows"]) -> TransformerState:
        read_by = RowMap.of(rows, sentences(memory))
        layers = tuple(
            (layer.mixer.start(len(rows)), layer.reader.start(kept, read_by))
            for layer, kept in zip(self.stack, memory, strict=True)
        )
        return TransformerState(layers, torch.zeros_like(rows), rows)

    def forward(
        self,
        tokens: Int[Tensor, "rows length"],
        memory: Memory,
        state: TransformerState,
        *,
        valid: Bool[Tensor, "rows length"] | None = None,
    ) -> Decoded:
        valid = torch.ones_like(tokens, dtype=torch.bool) if valid is None else valid
        span = Span(state.length, valid)
        rows = RowMap.of(state.rows, sentences(memory))
        x = self.embedding(tokens, span.position)
        layers = []
        for layer, kept, before in zip(self.stack, memory, state.layers, strict=True):
            x, after = layer(x, span, kept, rows, before)
            layers.append(after)
        return Decoded(self.norm(x), TransformerState(tuple(layers), state.length + span.length, state.rows))
