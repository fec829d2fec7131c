"""Measures of numbers told as sums over examples, and the ratios that they end in."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.core.task import MetricSums


def number_sums(told: Tensor, wanted: Tensor) -> MetricSums:
    """``moments`` (6,): rows, sums of told, wanted, told², wanted² and told · wanted; ``absolute``: of |error|."""
    told, wanted = told.double(), wanted.double()
    terms = [torch.ones_like(told), told, wanted, told.square(), wanted.square(), told * wanted]
    return {"moments": torch.stack(terms).sum(1), "absolute": (told - wanted).abs().sum()}


def number_metrics(sums: MetricSums) -> dict[str, float]:
    """``rmse`` and ``mae``, errors in the unit of the labels; ``pearson``, 0 where one side never changes.

    ``mean_rmse``: the error of always saying the mean of these examples.
    """
    count, told, wanted, told2, wanted2, both = (float(each) for each in sums["moments"])
    spread = max(wanted2 / count - (wanted / count) ** 2, 0.0)
    told_spread = max(told2 / count - (told / count) ** 2, 0.0)
    product = both / count - told * wanted / count**2
    return {
        "loss": float(sums["nll"]) / count,
        "rmse": math.sqrt(max(told2 + wanted2 - 2 * both, 0.0) / count),
        "mae": float(sums["absolute"]) / count,
        "pearson": product / math.sqrt(spread * told_spread) if spread * told_spread > 1e-24 else 0.0,
        "mean_rmse": math.sqrt(spread),
    }
