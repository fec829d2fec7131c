"""One of several classes, with calibrated probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel
from torch import Tensor

from regard.answers.answer_base import NoSettings
from regard.answers.losses import best_temperature, class_loss
from regard.answers.named_labels import CLASS_METRICS, SingleLabel, ranked, to_json
from regard.answers.outcomes import class_outcomes
from regard.config.prediction_settings import AbstentionSettings
from regard.config.setting_models import request_model
from regard.core.answer import InputContext, LossAndSums
from regard.core.observation import Alternative
from regard.core.outcomes import TargetOutcome
from regard.core.task import Metric, MetricSums, RunFiles
from regard.data.rows import Column
from regard.metrics.classes import calibration_error, class_metrics, prediction_sums
from regard.runs.checkpoint import read_best
from regard.runs.metrics_log import read_validations

if TYPE_CHECKING:
    ClassSettings = AbstentionSettings
else:
    ClassSettings = request_model(AbstentionSettings, base=NoSettings)


class Classification(NamedTuple):
    """The most likely label, its probability, those of all labels, and facts about the input (``InputContext``).

    ``label`` is None if its probability is below ``abstain_below``.
    """

    label: str | None
    probability: float
    probabilities: dict[str, float]
    weights: Sequence[tuple[str, float]]  # empty unless the network pools by attention
    cut: bool


class OneClass(SingleLabel):
    """One label per example.

    Args:
        columns: the column of the label.
        balanced: whether classes, instead of examples, have equal weights in the loss.
    """

    settings: ClassVar[type[BaseModel]] = ClassSettings
    metrics: ClassVar[Mapping[str, Metric]] = {
        **CLASS_METRICS,
        "temperature": Metric(lower_is_better=True, ratio=False),
        "scaled_calibration_error": Metric(lower_is_better=True, by_predictor=True),
    }

    def __init__(self, columns: tuple[Column, ...], *, balanced: bool = False) -> None:
        super().__init__(columns)
        self.balanced = balanced
        self.temperature = 1.0  # divisor of logits, fitted to the validation data (Guo et al. 2017, §4.2)

    @property
    def output_scale(self) -> tuple[float, float]:
        return 1 / self.temperature, 0.0

    def open(self, run: RunFiles) -> Self:
        super().open(run)
        self.temperature = _validated_temperature(run)
        return self

    def row_weights(self, targets: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not self.balanced:
            return np.ones(len(targets))
        counts = np.array(self.labels.counts)
        return np.asarray((counts.sum() / (len(counts) * counts))[targets])

    def loss(
        self, outputs: Tensor, targets: Tensor, unit: Tensor, *, smoothing: float, evaluating: bool
    ) -> LossAndSums:
        return class_loss(outputs, targets, smoothing=smoothing, evaluating=evaluating)

    @staticmethod
    def compute_metrics(sums: MetricSums) -> dict[str, float]:
        """Compute the metrics.

        ``temperature`` fits these examples; ``scaled_calibration_error`` is that of the predicted probabilities.
        """
        metrics = class_metrics(sums)
        if "scaled_nll" in sums:
            metrics["temperature"] = best_temperature(sums)
        if "scaled_reliability" in sums:
            metrics["scaled_calibration_error"] = calibration_error(sums["scaled_reliability"])
        return metrics

    def measure(self, outputs: Tensor, targets: Tensor) -> MetricSums:
        return {"scaled_reliability": prediction_sums(self._probabilities(outputs).log(), targets)["reliability"]}

    def predict(self, outputs: Tensor, settings: ClassSettings, context: InputContext) -> Classification:
        p = self._probabilities(outputs).tolist()
        best = max(range(len(p)), key=p.__getitem__)
        label = self.labels.names[best] if p[best] >= (settings.abstain_below or 0.0) else None
        return Classification(
            label, p[best], dict(zip(self.labels.names, p, strict=True)), context.weights, context.truncated
        )

    def write(self, output: Classification, *, json: bool) -> str:
        """Return ``LABEL<TAB>PROBABILITY``, or all probabilities as JSON; ``?`` for no label."""
        return to_json(output) if json else f"{'?' if output.label is None else output.label}\t{output.probability:.4f}"

    def alternatives(self, outputs: Tensor) -> tuple[Alternative, ...]:
        return ranked(self.labels.names, self._probabilities(outputs).log())

    def outcomes(self, outputs: Tensor, targets: Tensor) -> list[TargetOutcome]:
        return class_outcomes(self.labels.names, self._probabilities(outputs).log(), targets)

    def _probabilities(self, outputs: Tensor) -> Tensor:
        return (outputs / self.temperature).softmax(-1)


def _validated_temperature(run: RunFiles) -> float:
    """Return the temperature of the best checkpoint's validation, else of the last one; 1 without validations."""
    temperatures = {
        validation.step: validation.figures["temperature"]
        for validation in read_validations(run.path / "metrics.jsonl")
        if validation.figures.get("temperature", 0.0) > 0
    }
    best, last = read_best(run.path / "checkpoints"), next(reversed(temperatures.values()), 1.0)
    return last if best is None else temperatures.get(best.step, last)
