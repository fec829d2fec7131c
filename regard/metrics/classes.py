"""Classification metrics, of one class or several labels per example, computed as ratios of sums over examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.task import MetricSums, MetricTable

BINS = 15  # bins of confidence, for the calibration error


def prediction_sums(log_p: Tensor, label: Tensor) -> MetricSums:
    """Return the sums for log-probabilities (rows, classes) and labels (rows,).

    ``confusion`` (classes, classes) counts examples by label and prediction. ``reliability`` (3, bins) has the number
    of examples, of correct ones, and the sum of confidences, by confidence.
    """
    classes = log_p.shape[1]
    probability, predicted = log_p.double().exp().max(-1)
    confusion = torch.bincount(label * classes + predicted, minlength=classes**2).reshape(classes, classes)
    bin_index = (probability * BINS).long().clamp(0, BINS - 1)  # any bin for NaN
    terms = torch.stack([torch.ones_like(probability), (label == predicted).double(), probability])
    reliability = terms.new_zeros(3, BINS).index_add(1, bin_index, terms)
    return {"confusion": confusion.double(), "reliability": reliability}


class ClassFigures(NamedTuple):
    """Precision, recall and F1 of one class (0 if undefined), and its number of examples."""

    precision: float
    recall: float
    f1: float
    examples: int


def class_figures(confusion: Tensor) -> list[ClassFigures]:
    """Return the figures of each class for a confusion matrix (label, prediction)."""
    right, actual, predicted = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    return [
        ClassFigures(
            hit / max(count_predicted, 1.0),
            hit / max(count_actual, 1.0),
            2 * hit / max(count_actual + count_predicted, 1.0),
            int(count_actual),
        )
        for hit, count_actual, count_predicted in zip(right.tolist(), actual.tolist(), predicted.tolist(), strict=True)
    ]


def class_tables(sums: MetricSums, labels: Sequence[str]) -> dict[str, MetricTable]:
    """Return ``classes``, the figures of each class, and ``confusion``: labels in rows, predictions in columns."""
    figures = class_figures(sums["confusion"])
    counts = sums["confusion"].long().tolist()
    return {
        "classes": MetricTable(
            ("class", *ClassFigures._fields), tuple((label, *row) for label, row in zip(labels, figures, strict=True))
        ),
        "confusion": MetricTable(
            ("label", *labels), tuple((label, *row) for label, row in zip(labels, counts, strict=True)), square=True
        ),
        **calibration_table(sums),
    }


def calibration_table(sums: MetricSums) -> dict[str, MetricTable]:
    """Return ``calibration``: mean confidence, accuracy and examples of each bin of confidence that has examples.

    Confidences are those of the predicted probabilities, which may be scaled; {} without their sums.
    """
    reliability = sums.get("scaled_reliability", sums.get("reliability"))
    if reliability is None:
        return {}
    rows = tuple(
        (confidence / number, right / number, int(number))
        for number, right, confidence in reliability.T.tolist()
        if number
    )
    return {"calibration": MetricTable(("confidence", "accuracy", "examples"), rows)}


def calibration_error(reliability: Tensor) -> float:
    """Return the mean distance between confidence and accuracy, over bins of confidence (Guo et al. 2017, Eq. 3)."""
    number, right, confidence = reliability
    return float((right - confidence).abs().sum()) / max(float(number.sum()), 1.0)


def class_metrics(sums: MetricSums) -> dict[str, float]:
    """Compute the metrics from their sums.

    ``loss``: nats per example. ``macro_f1``: mean over the classes that occur or are predicted. ``majority``: accuracy
    of always predicting the most frequent label of these examples.
    """
    confusion = sums["confusion"]
    total = float(confusion.sum())
    seen = (confusion.sum(0) + confusion.sum(1)) > 0
    f1 = [figures.f1 for figures, counts in zip(class_figures(confusion), seen.tolist(), strict=True) if counts]
    return {
        "loss": float(sums["nll"]) / total,
        "accuracy": float(confusion.diagonal().sum()) / total,
        "macro_f1": sum(f1) / len(f1),
        "calibration_error": calibration_error(sums["reliability"]),
        "majority": float(confusion.sum(1).max()) / total,
    }


def label_set_sums(predicted: Tensor, targets: Tensor) -> MetricSums:
    """Return the sums for predicted and target labels, both (rows, classes) of bool.

    ``label_counts`` (3, classes): correct, predicted and target labels. ``exact`` (2,): exactly correct rows, and all
    rows.
    """
    counts = torch.stack([predicted & targets, predicted, targets]).sum(1).double()
    exact = torch.stack(
        [(predicted == targets).all(1).sum(), torch.tensor(len(predicted), device=predicted.device)]
    ).double()
    return {"label_counts": counts, "exact": exact}


def label_set_metrics(sums: MetricSums) -> dict[str, float]:
    """Compute the metrics from their sums.

    ``micro_f1`` is over all labels together, ``macro_f1`` the mean over labels that occur or are predicted.
    ``usual_micro_f1``: F1 of always predicting only the most frequent label of these examples.
    """
    right, predicted, targets = sums["label_counts"]
    rows = float(sums["exact"][1])
    seen = (predicted + targets) > 0
    f1 = 2 * right[seen] / (predicted + targets)[seen]
    majority, total = float(targets.max()), float(targets.sum())
    return {
        "loss": float(sums["nll"]) / rows,
        "exact_match": float(sums["exact"][0]) / rows,
        "micro_f1": 2 * float(right.sum()) / max(float(predicted.sum()) + total, 1.0),
        "macro_f1": float(f1.mean()) if len(f1) else 0.0,
        "usual_micro_f1": 2 * majority / max(rows + total, 1.0),
    }


def label_set_tables(sums: MetricSums, labels: Sequence[str]) -> dict[str, MetricTable]:
    """Return ``classes``: precision, recall, F1 and the number of examples of each label."""
    figures = [
        ClassFigures(hit / max(positive, 1.0), hit / max(total, 1.0), 2 * hit / max(positive + total, 1.0), int(total))
        for hit, positive, total in sums["label_counts"].T.tolist()
    ]
    rows = tuple((label, *row) for label, row in zip(labels, figures, strict=True))
    return {"classes": MetricTable(("class", *ClassFigures._fields), rows)}
