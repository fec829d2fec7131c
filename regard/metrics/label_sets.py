"""Multi-label metrics, computed as ratios of sums over examples."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.task import MetricSums, MetricTable
from regard.metrics.classes import ClassFigures


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
