"""Encoder and decoder of the Transformer (Vaswani et al. 2017, §3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from jaxtyping import Int, Shaped
from torch import Tensor, nn

from regard.attention.contract import (
    Decoded,
    Decoder,
    Encoded,
    Encoder,
    Memory,
    RowMap,
    mean_state,
    sentences,
)
from regard.attention.span import Span
from regard.core.state import State, truncate
from regard.errors import ConfigError
from regard.models.execution import Execution, Plain, Step
from regard.models.input import Input
from regard.models.transformer.layer import LayerResult, LayerState, TransformerLayer, stack_results


class TransformerEncoder(Encoder):
    """N layers over the embedded source; ``norm``: the last norm of a pre-norm stack, else the identity."""

    is_stack = True  # its first ``layers`` alone are a network of the same width

    def __init__(
        self, embedding: Input, layers: list[TransformerLayer], norm: nn.Module, execution: Execution | None = None
    ) -> None:
        super().__init__()
        self.embedding, self.layers, self.norm = embedding, nn.ModuleList(layers), norm
        self.execution = execution or Plain()
        self.width = self.summary = embedding.width

    def forward(self, inputs: Shaped[Tensor, "sentences length *features"], span: Span) -> Encoded:
        embedded, span, values = self.embedding(inputs, span)
        stack = cast(Iterable[TransformerLayer], self.layers)
        steps = [Step(layer, {"span": span, "embedded": embedded, "values": values}) for layer in stack]
        x, results = self.execution.run(steps, embedded)
        _require_no_losses(results)
        states = self.norm(x)
        return Encoded(states, embedded, mean_state(states, span), span)


def _require_no_losses(results: Iterable[LayerResult | State]) -> None:
    """Raise ConfigError if a mixer has losses: the output of an encoder cannot carry them."""
    named = sorted({name for result in results if isinstance(result, LayerResult) for name in result.losses})
    if named:
        raise ConfigError(
            f"the encoder's mixer has the additional loss {', '.join(named)}", where="model.encoder.mixer",
            why="losses of mixers are supported in decoders and language models only",
            help="set another model.encoder.mixer",
        )  # fmt: skip


class TransformerState(NamedTuple):
    """States of mixer and reader per layer; ``length``: the position; ``rows``: the sentence of each row."""

    layers: tuple[LayerState, ...]
    length: Int[Tensor, "rows"]
    rows: Int[Tensor, "rows"]

    def truncate(self, length: Int[Tensor, "rows"]) -> TransformerState:
        # Readers of the Transformer have no state; a reader with one raises when it is truncated.
        return TransformerState(truncate(self.layers, length), torch.minimum(self.length, length), self.rows)


class TransformerDecoder(Decoder):
    """N layers over the embedded target, each of which attends to the encoder's output."""

    def __init__(
        self, embedding: Input, layers: list[TransformerLayer], norm: nn.Module, execution: Execution | None = None
    ) -> None:
        super().__init__()
        self.embedding, self.layers, self.norm = embedding, nn.ModuleList(layers), norm
        self.execution = execution or Plain()
        self.width = embedding.width

    @property
    def stack(self) -> Iterable[TransformerLayer]:
        return cast(Iterable[TransformerLayer], self.layers)

    def prepare(self, encoded: Encoded) -> Memory:
        return tuple(layer.prepare(encoded) for layer in self.stack)

    def start(self, memory: Memory, rows: Int[Tensor, "rows"]) -> TransformerState:
        read_by = RowMap.of(rows, sentences(memory))
        layers = tuple(
            layer.start(len(rows), source, read_by) for layer, source in zip(self.stack, memory, strict=True)
        )
        return TransformerState(layers, torch.zeros_like(rows), rows)

    def forward(
        self, inputs: Shaped[Tensor, "rows length *features"], span: Span, memory: Memory, state: TransformerState
    ) -> Decoded:
        rows = RowMap.of(state.rows, sentences(memory))
        x, span, values = self.embedding(inputs, span)
        steps = [
            Step(
                layer,
                {"span": span, "memory": source, "rows": rows, "state": before, "embedded": x, "values": values},
            )
            for layer, source, before in zip(self.stack, memory, state.layers, strict=True)
        ]
        x, results = self.execution.run(steps, x)
        layers, losses = stack_results(results)
        after = TransformerState(layers, state.length + span.length, state.rows)
        return Decoded(self.norm(x), after, losses)
