"""Outputs of the networks of supervised tasks, and the functions that call these networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.attention.span import Span
from regard.core.answer import TaskAnswer
from regard.core.field import InputBatch, Padded
from regard.core.task import LossTerms, MetricSums
from regard.core.tensors import added_sums
from regard.models.head import Head
from regard.models.input import Input


class NetOutputs(NamedTuple):
    """Outputs of a network.

    Attributes:
        logits: (rows, outputs); for a prediction per position, a row is one predicted position.
        weights: the pooling weight of each position that the network encodes, by field (see ``InputBatch.by_row``);
            empty for predictions per position.
    """

    logits: Tensor
    weights: Mapping[str, Tensor]


class HeadOutputs(NamedTuple):
    """Inputs of the head of a network; for a large vocabulary, it computes the loss without storing logits.

    Attributes:
        features: (positions, width) of the predicted positions.
        head: the output layer.
        losses: auxiliary losses of the network, by name.
    """

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
        """Return the cross-entropy of the targets with a positive weight, in nats, and the sums of the answer."""
        known = weights > 0
        loss = self.head.loss(self.features[known], targets[known], smoothing=smoothing)
        sums = {"nll": loss.nll.detach(), answer.marker: known.sum()}
        if evaluating and baseline is not None:
            sums |= answer.compare(self.logits.detach(), targets, baseline)
        return LossTerms(sum(self.losses.values(), loss.smoothed), sums)


RunNetwork = Callable[[nn.Module, Mapping[str, InputBatch]], NetOutputs | HeadOutputs]


def run_network(net: nn.Module, inputs: Mapping[str, InputBatch]) -> NetOutputs:
    """Call a network with the fields of a batch. All calls of supervised networks use this function.

    Args:
        net: reads one field, and returns logits and the weights of its positions; for predictions per position, only
            logits (rows, positions, outputs). For a packed field, it reads the batch itself.
        inputs: the fields, by name.
    """
    ((name, padded),) = inputs.items()
    if not isinstance(padded, Padded):
        outputs = net(padded)
        return NetOutputs(outputs.logits, {name: outputs.weights})
    parts = padded.valid.flatten(0, -2)  # sequences that are encoded separately: rows, or parts of rows
    outputs = net(padded.values.flatten(0, padded.valid.dim() - 2), Span.of(parts))
    if padded.answered is not None:
        return NetOutputs(outputs[padded.answered], {})
    return NetOutputs(outputs.logits, {name: outputs.weights.unflatten(0, padded.valid.shape[:-1])})


def encoded_labels(net: nn.Module, labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of the positions that the network encodes, from those of the positions of its input.

    An input of the network may subsample, or join positions to patches; the label is then that of the range.
    """
    input = next((module for module in net.modules() if isinstance(module, Input)), None)
    if input is None or not labels:
        return tuple(labels)
    ranges = [(labels[start], labels[end - 1]) for start, end in input.ranges(len(labels))]
    return tuple(first if first == last else f"{first}–{last}" for first, last in ranges)


def run_causal(net: nn.Module, inputs: Mapping[str, InputBatch]) -> HeadOutputs:
    """Call a language model with the only field of a batch, which is padded."""
    (batch,) = inputs.values()
    padded, model = cast(Padded, batch), cast(Any, net)
    features, _, losses = model(padded.values, Span.of(padded.valid))
    return HeadOutputs(features[padded.answered], model.head, losses)


def measured_sums(
    answer: TaskAnswer, outputs: Sequence[Tensor], targets: Sequence[Tensor], names: Sequence[str]
) -> MetricSums:
    """Return the sums of the answer's metrics ``names`` over values, from their outputs and targets."""
    if not outputs or not {*names} & {*answer.measured}:
        return {}
    if not answer.per_position:
        return answer.measure(torch.cat([*outputs]), torch.cat([*targets]))
    sums: MetricSums = {}
    for pair in zip(outputs, targets, strict=True):
        sums = added_sums(sums, answer.measure(*pair))
    return sums
