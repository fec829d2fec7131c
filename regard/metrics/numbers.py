"""Regression metrics, computed as ratios of sums over examples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.core.task import MetricSums


def number_sums(prediction: Tensor, target: Tensor) -> MetricSums:
    """Return the sums for predictions p and targets t, both (rows,).

    ``moments`` (6,): the number of rows and the sums of p, t, p², t² and p · t. ``absolute``: the sum of |p − t|.
    """
    prediction, target = prediction.double(), target.double()
    terms = [torch.ones_like(prediction), prediction, target, prediction.square(), target.square(), prediction * target]
    return {"moments": torch.stack(terms).sum(1), "absolute": (prediction - target).abs().sum()}


def number_metrics(sums: MetricSums) -> dict[str, float]:
    """Compute the metrics from their sums.

    ``rmse`` and ``mae`` are in the unit of the labels; ``pearson`` is 0 if one side is constant. ``mean_rmse``: the
    error of always predicting the mean of these examples.
    """
    count, prediction, target, prediction2, target2, both = (float(value) for value in sums["moments"])
    spread = max(target2 / count - (target / count) ** 2, 0.0)
    prediction_spread = max(prediction2 / count - (prediction / count) ** 2, 0.0)
    product = both / count - prediction * target / count**2
    return {
        "loss": float(sums["nll"]) / count,
        "rmse": math.sqrt(max(prediction2 + target2 - 2 * both, 0.0) / count),
        "mae": float(sums["absolute"]) / count,
        "pearson": product / math.sqrt(spread * prediction_spread) if spread * prediction_spread > 1e-24 else 0.0,
        "mean_rmse": math.sqrt(spread),
    }
