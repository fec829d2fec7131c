"""Outputs of networks whose head makes logits of a large vocabulary: their loss needs no logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from torch import Tensor, nn

from regard.attention.mask import Span
from regard.core.answer import TaskAnswer
from regard.core.field import Padded
from regard.core.task import LossTerms
from regard.models.head import Head
from regard.models.language_model import LanguageModel

__all__ = ["HeadOutputs", "run_causal"]


class HeadOutputs(NamedTuple):
    """Features (positions, width) of answered positions, the head, and the losses of the network's own parts."""

    features: Tensor
    head: Head
    losses: Mapping[str, Tensor]

    @property
    def logits(self) -> Tensor:
        logits: Tensor = self.head(self.features)
        return logits

    @property
    def weights(self) -> Mapping[str, Tensor]:
        return {}

    def loss(
        self,
        answer: TaskAnswer,
        targets: Tensor,
        weights: Tensor,
        baseline: Tensor | None,
        *,
        smoothing: float,
        evaluating: bool,
    ) -> LossTerms:
        """Compute the cross-entropy of the targets with a weight, in nats, and the sums of the answer."""
        known = weights > 0
        loss = self.head.loss(self.features[known], targets[known], smoothing=smoothing)
        sums = {"nll": loss.nll.detach(), answer.marker: known.sum()}
        if evaluating and baseline is not None:
            sums |= answer.compare(self.logits.detach(), targets, baseline)
        return LossTerms(sum(self.losses.values(), loss.smoothed), sums)


def run_causal(net: nn.Module, inputs: Mapping[str, Padded]) -> HeadOutputs:
    """Call a language model with the one padded field of a batch."""
    (padded,) = inputs.values()
    model: Any = cast(LanguageModel, net)
    features, _, losses = model(padded.values, Span.of(padded.valid))
    return HeadOutputs(features[padded.answered], model.head, losses)
