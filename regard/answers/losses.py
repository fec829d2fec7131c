"""Losses and sums of answers: one class, several labels, or a number."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from regard.core.answer import LossAndSums
from regard.core.task import MetricSums
from regard.metrics.classes import prediction_sums
from regard.metrics.label_sets import label_set_sums
from regard.metrics.numbers import number_sums

# Divisors of logits that are tried: 0.25 to 64 by steps of an eighth of an octave, 1 among them.
TEMPERATURES = 2.0 ** (torch.arange(-16, 49, dtype=torch.float64) / 8)


def class_loss(logits: Tensor, label: Tensor, *, smoothing: float, evaluating: bool) -> LossAndSums:
    """Cross-entropy of one label, in nats.

    In evaluation its sums under each of ``TEMPERATURES``, too, and those of a label drawn from all with equal chances
    (``uniform_nll``), by which ``best_temperature`` keeps few examples from making a model certain.
    """
    log_p = logits.log_softmax(-1)
    nll = -log_p.gather(1, label[:, None])[:, 0]
    sums = {"nll": nll.detach().double().sum(), **prediction_sums(log_p.detach(), label)}
    if evaluating:
        scaled = [(logits.detach().double() / t).log_softmax(-1) for t in TEMPERATURES.tolist()]
        sums["scaled_nll"] = torch.stack([-each.gather(1, label[:, None]).sum() for each in scaled])
        sums["uniform_nll"] = torch.stack([-each.mean(-1).sum() for each in scaled])
    return LossAndSums((1 - smoothing) * nll - smoothing * log_p.mean(-1), sums)


def best_temperature(sums: MetricSums) -> float:
    """Return the divisor of logits under which the examples, and one more with a label drawn from all, are likeliest.

    Examples that are all predicted right say nothing about how often a model errs: without the one more, the least
    temperature is the best for them. With it, n right ones of two classes give a probability of about
    (n + ½) / (n + 1). Guo et al. (2017, §4.2) minimize the first sum alone; the difference vanishes with 1 / n.
    """
    examples = sums["confusion"].sum().clamp(min=1)
    return float(TEMPERATURES[int((sums["scaled_nll"] + sums["uniform_nll"] / examples).argmin())])


def label_set_loss(logits: Tensor, wanted: Tensor) -> LossAndSums:
    """Cross-entropy of each label, told or not, added over labels, in nats; told are those of at least a half."""
    nll = binary_cross_entropy_with_logits(logits, wanted.to(logits.dtype), reduction="none").sum(-1)
    return LossAndSums(nll, {"nll": nll.detach().double().sum(), **label_set_sums(logits >= 0, wanted > 0.5)})


def number_loss(told: Tensor, wanted: Tensor, unit: Tensor) -> LossAndSums:
    """Squared error in deviations of training; ``unit``: a deviation, in the unit of the labels, from their mean."""
    error = (told - wanted.to(told.dtype)).square()
    sums = {"nll": error.detach().double().sum(), **number_sums(told.detach().double() * unit, wanted.double() * unit)}
    return LossAndSums(error, sums)
