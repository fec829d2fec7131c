"""Measures of a ranking of two classes, from counts by score that add up."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["area_under_curve", "average_precision", "ranking_sums"]

BINS = 10_000  # of the probability: scores within a bin are ties


def ranking_sums(probability: Tensor, positive: Tensor) -> Tensor:
    """(2, bins): how many of the others, and of the positive ones, have each probability."""
    place = (probability.double() * BINS).long().clamp(0, BINS - 1)
    return torch.bincount(positive.long() * BINS + place, minlength=2 * BINS).view(2, BINS).double()


def area_under_curve(counts: Tensor) -> float:
    """Chance that a positive one is above another one, ties counting half: the area under the ROC curve."""
    negative, positive = counts
    below = negative.cumsum(0) - negative
    return float((positive * (below + negative / 2)).sum() / (positive.sum() * negative.sum()).clamp_min(1e-12))


def average_precision(counts: Tensor) -> float:
    """Σ (R_n − R_(n−1)) P_n over thresholds from the highest, R the recall and P the precision at each."""
    negative, positive = counts.flip(1)
    hits = positive.cumsum(0)
    precision = hits / (hits + negative.cumsum(0)).clamp_min(1e-12)
    return float((positive * precision).sum() / positive.sum().clamp_min(1e-12))
