"""Measures of classes told as sums over examples, and the ratios that they end in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.task import MetricSums, MetricTable

BINS = 15  # of the confidence, for the calibration error


def prediction_sums(log_p: Tensor, label: Tensor) -> MetricSums:
    """Sums of (rows, classes) log-probabilities against labels (rows,).

    ``confusion`` (classes, classes) counts label by prediction; ``reliability`` (3, bins) holds examples, right ones
    and the sum of confidences by the probability of the prediction.
    """
    classes = log_p.shape[1]
    probability, predicted = log_p.double().exp().max(-1)
    confusion = torch.bincount(label * classes + predicted, minlength=classes**2).reshape(classes, classes)
    place = (probability * BINS).long().clamp(0, BINS - 1)  # of NaN it is any number
    terms = torch.stack([torch.ones_like(probability), (label == predicted).double(), probability])
    reliability = terms.new_zeros(3, BINS).index_add(1, place, terms)
    return {"confusion": confusion.double(), "reliability": reliability}


class ClassFigures(NamedTuple):
    """Precision, recall and F1 of one class, 0 where nothing was found, and its number of examples."""

    precision: float
    recall: float
    f1: float
    examples: int


def class_figures(confusion: Tensor) -> list[ClassFigures]:
    """The figures of each class, by a table of counts, label by prediction."""
    right, actual, predicted = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    return [
        ClassFigures(hit / max(found, 1.0), hit / max(there, 1.0), 2 * hit / max(there + found, 1.0), int(there))
        for hit, there, found in zip(right.tolist(), actual.tolist(), predicted.tolist(), strict=True)
    ]


def class_tables(sums: MetricSums, labels: Sequence[str]) -> dict[str, MetricTable]:
    """``classes``: figures of each. ``confusion``: how many examples of a label (row) got each label (column)."""
    figures = class_figures(sums["confusion"])
    counts = sums["confusion"].long().tolist()
    return {
        "classes": MetricTable(
            ("class", *ClassFigures._fields), tuple((label, *each) for label, each in zip(labels, figures, strict=True))
        ),
        "confusion": MetricTable(
            ("label", *labels), tuple((label, *row) for label, row in zip(labels, counts, strict=True)), square=True
        ),
    }


def calibration_error(reliability: Tensor) -> float:
    """Mean distance of confidence from accuracy, over bins of confidence (Guo et al. 2017, Eq. 3)."""
    number, right, confidence = reliability
    return float((right - confidence).abs().sum()) / max(float(number.sum()), 1.0)


def class_metrics(sums: MetricSums) -> dict[str, float]:
    """``loss``: nats an example. ``macro_f1``: the mean over the classes that occur, or are predicted.

    ``majority``: the accuracy of always saying the label that these examples have most.
    """
    confusion = sums["confusion"]
    total = float(confusion.sum())
    seen = (confusion.sum(0) + confusion.sum(1)) > 0
    f1 = [each.f1 for each, counts in zip(class_figures(confusion), seen.tolist(), strict=True) if counts]
    return {
        "loss": float(sums["nll"]) / total,
        "accuracy": float(confusion.diagonal().sum()) / total,
        "macro_f1": sum(f1) / len(f1),
        "calibration_error": calibration_error(sums["reliability"]),
        "majority": float(confusion.sum(1).max()) / total,
    }
