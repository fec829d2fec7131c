"""A number, learned as a deviation from the training mean; its labels are parsed and scaled here."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from regard.answers.answer_base import AnswerBase, NoSettings
from regard.answers.losses import number_loss
from regard.answers.named_labels import LABELS_FILE, require_label, to_json
from regard.core.answer import InputContext, LossAndSums
from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.observation import Alternative, PredictionKind
from regard.core.task import Metric, MetricSums, Report, RunFiles
from regard.core.untrusted_files import SMALL
from regard.data.rows import Column, Row
from regard.errors import DataError
from regard.metrics.numbers import number_metrics

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
LARGEST = 1e30  # maximum magnitude: sums of squares stay finite in double precision


class Scale(NamedTuple):
    """Mean and standard deviation of the training labels; networks predict deviations from the mean."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Scale:
        return cls(float(np.mean(values)), float(np.std(values)) or 1.0)

    @classmethod
    def open(cls, path: Path) -> Scale:
        """Return the saved scale; raises ModelError if it is missing or damaged."""

        def parse(value: Any) -> Scale:
            scale = cls(float(value["mean"]), float(value["deviation"]))
            if not (math.isfinite(scale.mean) and 0 < scale.deviation < math.inf):
                raise ValueError("the scale needs a finite mean and a deviation above 0")
            return scale

        return open_codec_file(path, parse, limit=SMALL)

    def save(self, path: Path) -> None:
        """Write the file that ``open`` reads."""
        save_codec_file(path, self._asdict())


def read_number(labels: Sequence[str], where: str) -> float:
    """Return the label of an example as a number. DataError, with the place ``where``, if it is not a number."""
    try:
        if NUMBER.fullmatch(labels[0].strip()) is None:
            raise ValueError
        value = float(labels[0])
        if not abs(value) <= LARGEST:
            raise ValueError
    except (IndexError, ValueError) as error:
        what = f"the label {' '.join(labels)!r} is not a number"
        why = f"data.label_kind is number, which allows digits, point and exponent, up to ±{LARGEST:g}"
        raise DataError(what, where=where, why=why) from error
    return value


class NumberPrediction(NamedTuple):
    """A number in the unit of the labels, and facts about the input (``InputContext``)."""

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

    def alternatives(self, outputs: Tensor) -> tuple[Alternative, ...]:
        return ()
