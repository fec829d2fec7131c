"""A language model: causal layers over one sequence, and the output projection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.attention.span import Span
from regard.core.state import truncate
from regard.models.execution import Execution, Plain, Step
from regard.models.head import Head
from regard.models.input import Input
from regard.models.ngram_gate import NgramGate
from regard.models.transformer.layer import LayerState, Losses, TransformerLayer, stack_results


class LanguageModelState(NamedTuple):
    """The state of each layer's mixer, and the number of tokens that each row has read."""

    layers: tuple[LayerState, ...]
    length: Int[Tensor, "rows"]

    def truncate(self, length: Int[Tensor, "rows"]) -> LanguageModelState:
        return LanguageModelState(truncate(self.layers, length), torch.minimum(self.length, length))


class LanguageModelOutput(NamedTuple):
    """Features of each position, the next state, and losses of the layers, summed over rows and positions."""

    features: Float[Tensor, "rows length width"]
    state: LanguageModelState
    losses: Losses


class LanguageModel(nn.Module):
    """P(token | previous tokens): a Transformer decoder without a source.

    N layers of a causal mixer and a feed-forward. See Radford et al. 2018; Al-Rfou et al. 2019 for characters.

    ``gate`` has the weights of an interpolation with n-grams, which the objective and the predictor use; the outputs of
    the model are those of the network alone.

    Args:
        embedding: reads tokens.
        layers: the stack.
        norm: the last norm of a pre-norm stack, else the identity.
        head: the output projection.
        execution: how the stack is run, such as with recomputation of activations.
    """

    is_stack = True  # its first ``layers`` alone are a network of the same width

    def __init__(
        self,
        embedding: Input,
        layers: list[TransformerLayer],
        norm: nn.Module,
        head: Head,
        execution: Execution | None = None,
    ) -> None:
        super().__init__()
        self.execution = execution or Plain()
        self.gate: NgramGate | None = None
        self.head, self.embedding, self.layers, self.norm = head, embedding, nn.ModuleList(layers), norm
        self.width = embedding.width

    @property
    def packs(self) -> bool:
        """Return whether a row may hold several documents that do not see each other."""
        return all(layer.mixer.packs for layer in self.stack)

    @property
    def carries(self) -> bool:
        """Return whether the size of the state stays constant, so training can carry it from update to update."""
        return all(layer.mixer.carries for layer in self.stack)

    @property
    def stack(self) -> Iterable[TransformerLayer]:
        return cast(Iterable[TransformerLayer], self.layers)

    def start(self, rows: int) -> LanguageModelState:
        """Return the state before the first token of each row."""
        layers = tuple(layer.start(rows) for layer in self.stack)
        return LanguageModelState(layers, torch.zeros(rows, dtype=torch.int64, device=self.head.weight.device))

    def forward(
        self,
        inputs: Shaped[Tensor, "rows length *features"],
        span: Span,
        state: LanguageModelState | None = None,
    ) -> LanguageModelOutput:
        """Return the features of each position, given the positions before it, and the state after them.

        Args:
            inputs: tokens, as the model's ``Input`` reads them.
            span: positions and padding of the inputs, and the documents that a row packs.
            state: after the previous inputs; the span continues from its ``length``. None: before the first input.

        Raises:
            ValueError: a row packs documents, and a layer does not support packing.
        """
        if isinstance(span.segment, Tensor) and not self.packs:
            raise ValueError("a layer of this model does not support rows that pack several documents")
        state = self.start(len(inputs)) if state is None else state
        x, span, values = self.embedding(inputs, span)
        steps = [
            Step(layer, {"span": span, "state": before, "embedded": x, "values": values})
            for layer, before in zip(self.stack, state.layers, strict=True)
        ]
        x, results = self.execution.run(steps, x)
        layers, losses = stack_results(results)
        return LanguageModelOutput(self.norm(x), LanguageModelState(layers, state.length + span.length), losses)

    def step(
        self, tokens: Int[Tensor, "rows length"], state: LanguageModelState
    ) -> tuple[Float[Tensor, "rows length types"], LanguageModelState]:
        """Return log-probabilities of the next tokens, in float32 or wider, and the next state."""
        outputs = self(tokens, Span.without_padding(tokens, state.length), state)
        return self.head.log_probabilities(outputs.features), outputs.state
