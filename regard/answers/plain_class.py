"""One of several classes, with the uncalibrated probabilities of the network."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from torch import Tensor

from regard.answers.answer_base import NoSettings
from regard.answers.losses import class_loss
from regard.answers.named_labels import CLASS_METRICS, DECIMALS, SingleLabel, ranked
from regard.core.answer import InputContext, LossAndSums
from regard.core.observation import Alternative
from regard.core.task import Metric, MetricSums
from regard.metrics.classes import class_metrics


class ClassPrediction(NamedTuple):
    """The most likely label, its probability, those of all labels, and the weights of ``InputContext``."""

    label: str
    probability: float
    probabilities: dict[str, float]
    weights: Sequence[tuple[str, float]]


class PlainClass(SingleLabel):
    """One label per example."""

    remedy: ClassVar[str] = (
        "--set data.label=KEY reads labels from another key; --set data.label_kind=number predicts numbers"
    )
    metrics: ClassVar[Mapping[str, Metric]] = CLASS_METRICS

    def loss(
        self, outputs: Tensor, targets: Tensor, unit: Tensor, *, smoothing: float, evaluating: bool
    ) -> LossAndSums:
        return class_loss(outputs, targets, smoothing=smoothing, evaluating=False)  # no temperature is fitted

    @staticmethod
    def compute_metrics(sums: MetricSums) -> dict[str, float]:
        return class_metrics(sums)

    def predict(self, outputs: Tensor, settings: NoSettings, context: InputContext) -> ClassPrediction:
        p = dict(zip(self.labels.names, outputs.softmax(-1).tolist(), strict=True))
        label = max(p, key=p.__getitem__)
        return ClassPrediction(label, p[label], p, context.weights)

    def write(self, output: ClassPrediction, *, json: bool) -> str:
        """Return the label, or the probabilities of all labels as JSON."""
        if not json:
            return output.label
        rounded = {label: round(p, DECIMALS) for label, p in output.probabilities.items()}
        return jsonlib.dumps({"label": output.label, "probabilities": rounded}, ensure_ascii=False)

    def alternatives(self, outputs: Tensor) -> tuple[Alternative, ...]:
        return ranked(self.labels.names, outputs.log_softmax(-1))
