"""The base of answers with one class: probabilities that a temperature calibrates on the validation data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from torch import Tensor

from regard.answers.losses import best_temperature, class_loss
from regard.answers.named_labels import CLASS_METRICS, SingleLabel, ranked
from regard.answers.outcomes import class_outcomes
from regard.core.answer import LossAndSums
from regard.core.observation import Alternative
from regard.core.outcomes import TargetOutcome
from regard.core.task import Metric, MetricSums, RunFiles
from regard.data.labels import Labels
from regard.metrics.classes import calibration_error, class_metrics, prediction_sums
from regard.runs.validated_figure import validated_figure


class CalibratedClass(SingleLabel):
    """One label per example. Logits are divided by ``temperature`` (Guo et al. 2017, §4.2)."""

    metrics: ClassVar[Mapping[str, Metric]] = {
        **CLASS_METRICS,
        "temperature": Metric(lower_is_better=True, ratio=False),
        "scaled_calibration_error": Metric(lower_is_better=True, by_predictor=True),
    }
    temperature = 1.0  # fitted to the validation data

    @classmethod
    def of(cls, names: tuple[str, ...], temperature: float = 1.0) -> Self:
        """Return an answer with these classes, for data that name them without a column of labels."""
        answer = cls(())
        answer.labels, answer.temperature = Labels(names, (1,) * len(names)), temperature
        return answer

    @property
    def output_scale(self) -> tuple[float, float]:
        return 1 / self.temperature, 0.0

    def open(self, run: RunFiles) -> Self:
        super().open(run)
        self.temperature = validated_figure(run, "temperature")
        return self

    def loss(
        self, outputs: Tensor, targets: Tensor, unit: Tensor, *, smoothing: float, evaluating: bool
    ) -> LossAndSums:
        return class_loss(outputs, targets, smoothing=smoothing, evaluating=evaluating)

    @staticmethod
    def compute_metrics(sums: MetricSums) -> dict[str, float]:
        """Compute the metrics; see ``calibration_metrics``."""
        return class_metrics(sums) | calibration_metrics(sums)

    def measure(self, outputs: Tensor, targets: Tensor) -> MetricSums:
        return {"scaled_reliability": prediction_sums(self.probabilities(outputs).log(), targets)["reliability"]}

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Return the calibrated probabilities (…, classes) of outputs."""
        return (outputs / self.temperature).softmax(-1)

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return self.probabilities(outputs).log()

    def outcomes(self, outputs: Tensor, targets: Tensor) -> list[TargetOutcome]:
        return class_outcomes(self.labels.names.__getitem__, self.log_probabilities(outputs), targets)

    def alternatives(self, outputs: Tensor) -> tuple[Alternative, ...]:
        return ranked(self.labels.names, self.log_probabilities(outputs))


def calibration_metrics(sums: MetricSums) -> dict[str, float]:
    """Return the metrics of calibration whose sums are present.

    ``temperature`` fits these examples; ``scaled_calibration_error`` is that of the predicted probabilities.
    """
    metrics = {}
    if "scaled_nll" in sums:
        metrics["temperature"] = best_temperature(sums)
    if "scaled_reliability" in sums:
        metrics["scaled_calibration_error"] = calibration_error(sums["scaled_reliability"])
    return metrics
