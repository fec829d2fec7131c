"""A number, learned as a deviation from the training mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.answers.answer_base import AnswerBase, NoSettings
from regard.answers.losses import number_loss
from regard.answers.named_labels import LABELS_FILE, require_label, to_json
from regard.answers.number_scale import Scale, read_number
from regard.core.answer import InputContext, LossAndSums
from regard.core.observation import Alternative, PredictionKind
from regard.core.outcomes import TargetOutcome
from regard.core.task import Metric, MetricSums, Report, RunFiles
from regard.data.rows import Column, Row
from regard.metrics.numbers import number_metrics


class NumberPrediction(NamedTuple):
    """A predicted number.

    Attributes:
        value: the number, in the unit of the labels.
        weights: the label and the weight of each position in the pooled vector; empty unless the network pools by
            attention.
        cut: whether the input was shortened to the limit of the run.
    """

    value: float
    weights: Sequence[tuple[str, float]]
    cut: bool


class Number(AnswerBase):
    """One number per example. A value is a tuple with its text, which ``targets`` parses."""

    kind: ClassVar[PredictionKind] = "number"
    marker: ClassVar[str] = "moments"
    metrics: ClassVar[Mapping[str, Metric]] = {
        "rmse": Metric(lower_is_better=True, baseline="mean_rmse"),
        "mae": Metric(lower_is_better=True),
        "pearson": Metric(lower_is_better=False),
        "mean_rmse": Metric(lower_is_better=True),
    }
    sizes: Mapping[str, int] = {"classes": 1}
    class_names: tuple[str, ...] = ()

    def __init__(self, columns: tuple[Column, ...], *, digits: int = 10) -> None:
        """Initialize the answer; ``digits``: significant digits of numbers in plain output."""
        super().__init__(columns)
        self.digits, self.scale = digits, Scale(0.0, 1.0)

    @property
    def unit(self) -> float:
        return self.scale.deviation

    @property
    def output_scale(self) -> tuple[float, float]:
        return self.scale.deviation, self.scale.mean

    @property
    def baseline(self) -> float:
        """The mean of the training data."""
        return self.scale.mean

    def value(self, row: Row) -> tuple[str, ...]:
        return (require_label(row, self.columns[0]),)

    def learn(
        self, run: RunFiles, values: Sequence[tuple[str, ...]], locations: Sequence[str], log: Report, *, where: str
    ) -> Self:
        numbers = [read_number(value, place) for value, place in zip(values, locations, strict=True)]
        self.scale = Scale.of(numbers or [0.0])
        log(f"labels: numbers, mean {self.scale.mean:.4g}, standard deviation {self.scale.deviation:.4g}")
        self.scale.save(run.tokenizers / LABELS_FILE)
        return self

    def open(self, run: RunFiles) -> Self:
        self.scale = Scale.open(run.tokenizers / LABELS_FILE)
        return self

    def targets(self, values: Sequence[tuple[str, ...]], locations: Sequence[str]) -> npt.NDArray[Any]:
        numbers = [read_number(value, place) for value, place in zip(values, locations, strict=True)]
        return (np.array(numbers) - self.scale.mean) / self.scale.deviation

    def loss(
        self, outputs: Tensor, targets: Tensor, unit: Tensor, *, smoothing: float, evaluating: bool
    ) -> LossAndSums:
        return number_loss(outputs[:, 0], targets, unit)

    @staticmethod
    def compute_metrics(sums: MetricSums) -> dict[str, float]:
        return number_metrics(sums)

    def predict(self, outputs: Tensor, settings: NoSettings, context: InputContext) -> NumberPrediction:
        value = self.scale.mean + self.scale.deviation * float(outputs[0])
        return NumberPrediction(value, context.weights, context.truncated)

    def write(self, output: NumberPrediction, *, json: bool) -> str:
        return to_json(output) if json else f"{output.value:.{self.digits}g}"

    def outcomes(self, outputs: Tensor, targets: Tensor) -> list[TargetOutcome]:
        rows = torch.stack([targets, outputs[:, 0].double()], 1) * self.scale.deviation + self.scale.mean
        return [TargetOutcome(target, prediction) for target, prediction in rows.tolist()]

    def alternatives(self, outputs: Tensor) -> tuple[Alternative, ...]:
        return ()
