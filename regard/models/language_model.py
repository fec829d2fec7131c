"""A language model: layers over one sequence, none of which sees a later token, and the output projection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.attention.mask import Span
from regard.core.state import State, truncate
from regard.models.cross_entropy import Loss, output_loss
from regard.models.transformer.transformer import Embedding, EncoderLayer

__all__ = ["LanguageModel", "LanguageModelState"]


class LanguageModelState(NamedTuple):
    """The state of each layer's mixer, and how many tokens each row has read."""

    layers: tuple[State, ...]
    length: Int[Tensor, "rows"]

    def truncate(self, length: Int[Tensor, "rows"]) -> LanguageModelState:
        return LanguageModelState(truncate(self.layers, length), torch.minimum(self.length, length))


class LanguageModel(nn.Module):
    """P(token | tokens before it): N layers of a causal mixer and a feed-forward, as a Transformer's decoder without

    the source (Radford et al. 2018; Al-Rfou et al. 2019 for characters). ``projection`` may be the embedding's matrix.
    ``norm`` is the last norm of a pre-norm stack, else the identity.
    """

    def __init__(
        self,
        embedding: Embedding,
        layers: list[EncoderLayer],
        norm: nn.Module,
        projection: nn.Parameter,
        output_bias: nn.Parameter | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.layers, self.norm = embedding, nn.ModuleList(layers), norm
        self.projection, self.output_bias = projection, output_bias
        self.width = embedding.weight.shape[1]

    @property
    def stack(self) -> Iterable[EncoderLayer]:
        return cast(Iterable[EncoderLayer], self.layers)

    def start(self, rows: int) -> LanguageModelState:
        """The state before the first token of each row."""
        layers = tuple(layer.mixer.start(rows) for layer in self.stack)
        return LanguageModelState(layers, torch.zeros(rows, dtype=torch.int64, device=self.projection.device))

    def forward(
        self,
        tokens: Int[Tensor, "rows length"],
        state: LanguageModelState | None = None,
        *,
        valid: Bool[Tensor, "rows length"] | None = None,
    ) -> tuple[Float[Tensor, "rows length width"], LanguageModelState]:
        """Features of each column, given the columns before it and what ``state`` has read; and the state after."""
        state = self.start(len(tokens)) if state is None else state
        span = Span(state.length, torch.ones_like(tokens, dtype=torch.bool) if valid is None else valid)
        x, after = self.embedding(tokens, span.position), []
        for layer, before in zip(self.stack, state.layers, strict=True):
            x, kept = layer(x, span, before)
            after.append(kept)
        return self.norm(x), LanguageModelState(tuple(after), state.length + span.length)

    def logits(self, features: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape types"]:
        return linear(features, self.projection, self.output_bias)

    def loss(self, features: Float[Tensor, "rows width"], target: Int[Tensor, "rows"], *, smoothing: float) -> Loss:
        """Cross-entropy of the target at each feature, summed over rows, in nats."""
        return output_loss(features, self.projection, self.output_bias, target, smoothing=smoothing)

    def step(
        self, tokens: Int[Tensor, "rows length"], state: LanguageModelState
    ) -> tuple[Float[Tensor, "rows length types"], LanguageModelState]:
        """Tokens to log-probabilities of the next, in float32 or wider, and the state after them."""
        features, state = self(tokens, state)
        logits = self.logits(features)
        return torch.log_softmax(logits.float() if logits.dtype == torch.bfloat16 else logits, -1), state
