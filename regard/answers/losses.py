"""Losses and metric sums of answers: one class, several labels, or a number."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from regard.core.answer import LossAndSums
from regard.core.task import MetricSums
from regard.metrics.classes import label_set_sums, prediction_sums
from regard.metrics.numbers import number_sums

PRIOR = 0.5  # standard deviation of log T, of the prior of temperatures T
# Candidate divisors of logits: 1/256 to 64 in steps of an eighth of an octave, including 1.
TEMPERATURES = 2.0 ** (torch.arange(-64, 49, dtype=torch.float64) / 8)


def class_loss(logits: Tensor, label: Tensor, *, smoothing: float, evaluating: bool) -> LossAndSums:
    """Compute the cross-entropy of one label, in nats.

    For evaluation, the sums also have the loss under each of ``TEMPERATURES``, and that of a label drawn uniformly
    (``uniform_nll``). With the latter, ``best_temperature`` avoids overconfidence from few examples.
    """
    log_p = logits.log_softmax(-1)
    nll = -log_p.gather(1, label[:, None])[:, 0]
    sums = {"nll": nll.detach().double().sum(), **prediction_sums(log_p.detach(), label)}
    if evaluating:
        scaled_log_ps = [(logits.detach().double() / t).log_softmax(-1) for t in TEMPERATURES.tolist()]
        sums["scaled_nll"] = torch.stack(
            [-scaled_log_p.gather(1, label[:, None]).sum() for scaled_log_p in scaled_log_ps]
        )
        sums["uniform_nll"] = torch.stack([-scaled_log_p.mean(-1).sum() for scaled_log_p in scaled_log_ps])
    return LossAndSums((1 - smoothing) * nll - smoothing * log_p.mean(-1), sums)


def best_temperature(sums: MetricSums) -> float:
    """Return the divisor T of logits that is most probable after these examples and one more with a uniform label.

    Guo et al. (2017, §4.2) maximize only the likelihood of the examples; both differences vanish with 1 / n. Examples
    that are all predicted correctly carry no information about the error rate: without the additional example, the
    lowest temperature would fit best. The prior of log T is normal with mean 0 and deviation ``PRIOR``: without it, a
    few unusual examples could move T far from 1. A minimum number of examples, with T = 1 below it, has higher losses.
    """
    examples = sums["confusion"].sum().clamp(min=1)
    prior = TEMPERATURES.log().square() / (2 * PRIOR**2)
    return float(TEMPERATURES[int((sums["scaled_nll"] + sums["uniform_nll"] / examples + prior).argmin())])


def label_set_loss(logits: Tensor, targets: Tensor) -> LossAndSums:
    """Compute the binary cross-entropy of each label, summed over labels, in nats; labels are predicted at p ≥ 0.5."""
    nll = binary_cross_entropy_with_logits(logits, targets.to(logits.dtype), reduction="none").sum(-1)
    return LossAndSums(nll, {"nll": nll.detach().double().sum(), **label_set_sums(logits >= 0, targets > 0.5)})


def number_loss(prediction: Tensor, target: Tensor, scale: Tensor) -> LossAndSums:
    """Compute the squared error in units of the training deviation.

    Args:
        prediction: (rows,), in deviations from the training mean.
        target: (rows,), likewise.
        scale: one deviation, in the unit of the labels.
    """
    error = (prediction - target.to(prediction.dtype)).square()
    sums = {
        "nll": error.detach().double().sum(),
        **number_sums(prediction.detach().double() * scale, target.double() * scale),
    }
    return LossAndSums(error, sums)
