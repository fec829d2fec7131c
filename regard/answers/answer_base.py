"""Base of answers: defaults for answers without weights, baselines or measures of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from regard.core.task import Metric, MetricSums, MetricTable
from regard.data.rows import Column


class NoSettings(BaseModel):
    """Prediction settings without any keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AnswerBase:
    """Default implementation of the contract in ``core/answer.py``: one answer per row, all rows with equal weight."""

    per_position: ClassVar[bool] = False
    metrics: ClassVar[Mapping[str, Metric]]
    settings: ClassVar[type[BaseModel]] = NoSettings

    def __init__(self, columns: tuple[Column, ...], defaults: BaseModel | None = None) -> None:
        self.columns = columns
        self.defaults = self.settings() if defaults is None else defaults

    @property
    def unit(self) -> float:
        return 1.0

    @property
    def output_scale(self) -> tuple[float, float]:
        return 1.0, 0.0

    @property
    def measured(self) -> Collection[str]:
        return [name for name, metric in self.metrics.items() if metric.by_predictor]

    def names(self, value: Any) -> tuple[str, ...]:
        return ()

    def baseline_targets(self, values: Sequence[Any]) -> npt.NDArray[Any] | None:
        return None

    def compare(self, outputs: Tensor, targets: Tensor, baseline: Tensor) -> MetricSums:
        return {"baseline_right": (baseline == targets).sum().double()}

    def row_weights(self, targets: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.ones(len(targets))

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return outputs.log_softmax(-1)

    def tables(self, sums: MetricSums) -> Mapping[str, MetricTable]:
        return {}

    def measure(self, outputs: Tensor, targets: Tensor) -> MetricSums:
        return {}
