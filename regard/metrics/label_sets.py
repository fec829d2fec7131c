"""Measures of sets of labels told as sums over examples, and the ratios that they end in."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.task import MetricSums, MetricTable
from regard.metrics.classes import ClassFigures


def label_set_sums(told: Tensor, wanted: Tensor) -> MetricSums:
    """Sums of (rows, classes) labels told against those wanted, both of bool.

    ``label_counts`` (3, classes): right, told and wanted of each. ``exact`` (2,): rows told wholly right, and all.
    """
    counts = torch.stack([told & wanted, told, wanted]).sum(1).double()
    exact = torch.stack([(told == wanted).all(1).sum(), torch.tensor(len(told), device=told.device)]).double()
    return {"label_counts": counts, "exact": exact}


def label_set_metrics(sums: MetricSums) -> dict[str, float]:
    """``micro_f1`` of all labels together, ``macro_f1`` the mean over those that occur or are told.

    ``usual_micro_f1``: of always saying the one label that these examples have most.
    """
    right, told, wanted = sums["label_counts"]
    rows = float(sums["exact"][1])
    seen = (told + wanted) > 0
    each = 2 * right[seen] / (told + wanted)[seen]
    most, total = float(wanted.max()), float(wanted.sum())
    return {
        "loss": float(sums["nll"]) / rows,
        "exact_match": float(sums["exact"][0]) / rows,
        "micro_f1": 2 * float(right.sum()) / max(float(told.sum()) + total, 1.0),
        "macro_f1": float(each.mean()) if len(each) else 0.0,
        "usual_micro_f1": 2 * most / max(rows + total, 1.0),
    }


def label_set_tables(sums: MetricSums, labels: Sequence[str]) -> dict[str, MetricTable]:
    """``classes``: precision, recall, F1 and the number of examples of each label."""
    figures = [
        ClassFigures(hit / max(told, 1.0), hit / max(wanted, 1.0), 2 * hit / max(told + wanted, 1.0), int(wanted))
        for hit, told, wanted in sums["label_counts"].T.tolist()
    ]
    rows = tuple((label, *each) for label, each in zip(labels, figures, strict=True))
    return {"classes": MetricTable(("class", *ClassFigures._fields), rows)}
