"""Losses and sums of answers: one class, several labels, or a number."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from regard.core.task import MetricSums
from regard.metrics.classes import prediction_sums
from regard.metrics.label_sets import label_set_sums
from regard.metrics.numbers import number_sums

__all__ = ["TEMPERATURES", "LossAndSums", "class_loss", "label_set_loss", "number_loss"]

# Divisors of logits that are tried, the middle one 1: 0.25 to 8 by steps of an eighth of an octave.
TEMPERATURES = 2.0 ** (torch.arange(-16, 25, dtype=torch.float64) / 8)


class LossAndSums(NamedTuple):
    """Loss of each row (rows,), to be minimised, and the sums to report."""

    loss: Tensor
    sums: MetricSums


def class_loss(logits: Tensor, label: Tensor, *, smoothing: float, evaluating: bool) -> LossAndSums:
    """Cross-entropy of one label, in nats; in evaluation its sums under each of ``TEMPERATURES``, too."""
    log_p = logits.log_softmax(-1)
    nll = -log_p.gather(1, label[:, None])[:, 0]
    sums = {"nll": nll.detach().double().sum(), **prediction_sums(log_p.detach(), label)}
    if evaluating:
        sums["scaled_nll"] = torch.stack(
            [-(logits.double() / t).log_softmax(-1).gather(1, label[:, None]).sum() for t in TEMPERATURES.tolist()]
        )
    return LossAndSums((1 - smoothing) * nll - smoothing * log_p.mean(-1), sums)


def label_set_loss(logits: Tensor, wanted: Tensor) -> LossAndSums:
    """Cross-entropy of each label, told or not, added over labels, in nats; told are those of at least a half."""
    nll = binary_cross_entropy_with_logits(logits, wanted.to(logits.dtype), reduction="none").sum(-1)
    return LossAndSums(nll, {"nll": nll.detach().double().sum(), **label_set_sums(logits >= 0, wanted > 0.5)})


def number_loss(told: Tensor, wanted: Tensor, unit: Tensor) -> LossAndSums:
    """Squared error in deviations of training; ``unit``: a deviation, in the unit of the labels, from their mean."""
    error = (told - wanted.to(told.dtype)).square()
    sums = {"nll": error.detach().double().sum(), **number_sums(told.detach().double() * unit, wanted.double() * unit)}
    return LossAndSums(error, sums)
