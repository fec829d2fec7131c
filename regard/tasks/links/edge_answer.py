"""The answer of the task: whether a pair of nodes has an edge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from regard.answers.calibrated_class import CalibratedClass, calibration_metrics
from regard.answers.losses import class_loss
from regard.core.answer import LossAndSums
from regard.core.task import Metric, MetricSums
from regard.metrics.classes import calibration_error
from regard.metrics.ranking import area_under_curve, average_precision, ranking_sums

CLASSES = "no edge", "edge"


class EdgeAnswer(CalibratedClass):
    """Both classes of a pair of nodes; the outputs are 0 and the logit of an edge: see ``edge_outputs``."""

    metrics: ClassVar[Mapping[str, Metric]] = {
        "auc": Metric(lower_is_better=False, baseline=0.5),
        "average_precision": Metric(lower_is_better=False),
        **{name: CalibratedClass.metrics[name] for name in ("calibration_error", "temperature")},
        "scaled_calibration_error": CalibratedClass.metrics["scaled_calibration_error"],
    }

    def loss(
        self, outputs: Tensor, targets: Tensor, unit: Tensor, *, smoothing: float, evaluating: bool
    ) -> LossAndSums:
        """See ``TaskAnswer.loss``: the binary cross-entropy in nats."""
        logits = outputs[:, 1] - outputs[:, 0]
        nll = binary_cross_entropy_with_logits(logits, targets.to(logits.dtype), reduction="none")
        counts = ranking_sums(logits.detach().double().sigmoid(), targets > 0)
        sums = class_loss(outputs.detach(), targets, smoothing=0.0, evaluating=True).sums if evaluating else {}
        return LossAndSums(nll, sums | {"nll": nll.detach().double().sum(), "ranking": counts})

    @staticmethod
    def compute_metrics(sums: MetricSums) -> dict[str, float]:
        """Compute the metrics; ``auc`` is the probability that an edge ranks above a pair without one."""
        counts = sums["ranking"].double()
        loss = float(sums["nll"]) / max(float(counts.sum()), 1.0)
        metrics = {"loss": loss, "auc": area_under_curve(counts), "average_precision": average_precision(counts)}
        if "reliability" in sums:
            metrics["calibration_error"] = calibration_error(sums["reliability"])
        return metrics | calibration_metrics(sums)


def edge_outputs(logits: Tensor) -> Tensor:
    """Return the outputs (pairs, 2) of both classes for the logits (pairs,) of edges."""
    return torch.stack([torch.zeros_like(logits), logits], 1)


def edge_loss(logits: Tensor, exists: Tensor, *, evaluating: bool) -> LossAndSums:
    """Return the loss and the sums for the logits (pairs,) of edges; ``exists`` (pairs,): whether they exist."""
    outputs = edge_outputs(logits)
    return EdgeAnswer.of(CLASSES).loss(outputs, exists.long(), logits, smoothing=0.0, evaluating=evaluating)
