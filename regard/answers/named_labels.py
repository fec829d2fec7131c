"""Base of answers that are labels: their names and counts in ``labels.json`` of the run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from regard.answers.answer_base import AnswerBase
from regard.answers.outcomes import class_outcomes
from regard.core.observation import Alternative, PredictionKind
from regard.core.outcomes import TargetOutcome
from regard.core.task import Metric, MetricSums, MetricTable, Report, RunFiles
from regard.data.labels import Labels
from regard.data.rows import Column, Row, text_of
from regard.errors import DataError
from regard.metrics.classes import class_tables

LABELS_FILE = "labels.json"
DECIMALS = 6  # digits after the point in JSON
CLASS_METRICS: Mapping[str, Metric] = {  # computed by ``metrics.classes.class_metrics``
    "accuracy": Metric(lower_is_better=False, baseline="majority"),
    "macro_f1": Metric(lower_is_better=False),
    "calibration_error": Metric(lower_is_better=True),
    "majority": Metric(lower_is_better=False),
}


class NamedLabels(AnswerBase):
    """Labels by name, learned from training. A value is the tuple of an example's labels."""

    kind: ClassVar[PredictionKind] = "label"
    noun: ClassVar[str] = "labels"
    remedy: ClassVar[str] = "--set data.label=3 reads the labels from another column"

    def __init__(self, columns: tuple[Column, ...]) -> None:
        super().__init__(columns)
        self.labels = Labels((), ())

    @property
    def sizes(self) -> dict[str, int]:
        return {"classes": len(self.labels.names)}

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.labels.names

    @property
    def baseline(self) -> tuple[str, ...]:
        """The majority label."""
        counts = self.labels.counts
        return (self.labels.names[counts.index(max(counts))],)

    def names(self, value: Any) -> tuple[str, ...]:
        return tuple(value)

    def learn(self, run: RunFiles, values: Sequence[Any], locations: Sequence[str], log: Report, *, where: str) -> Self:
        self.learn_names(run, Counter(label for value in values for label in value), log, where=where)
        return self

    def learn_names(self, run: RunFiles, counts: Counter[str], log: Report, *, where: str) -> None:
        """Learn and save the labels with these counts. Raises DataError if there are fewer than two, or too many."""
        self.labels = Labels.of(counts, where=where, help=self.remedy)
        self.labels.save(run.tokenizers / f"{self.noun}.json")
        log(f"{self.noun}: {self.labels.describe()}")

    def open(self, run: RunFiles) -> Self:
        self.labels = Labels.open(run.tokenizers / f"{self.noun}.json")
        return self

    def numbers(self, values: Sequence[Sequence[str]], locations: Sequence[str]) -> list[list[int]]:
        """Return the classes of each value's labels. Raises DataError for labels that are not in the training data."""
        numbers = self.labels.numbers
        return [[numbers.of(label, where) for label in value] for value, where in zip(values, locations, strict=True)]

    def tables(self, sums: MetricSums) -> Mapping[str, MetricTable]:
        return class_tables(sums, self.labels.names)

    def outcomes(self, outputs: Tensor, targets: Tensor) -> list[TargetOutcome]:
        return class_outcomes(self.labels.names.__getitem__, outputs.log_softmax(-1), targets)


class SingleLabel(NamedLabels):
    """Base of answers with exactly one label per example. A value is a tuple with this label."""

    marker: ClassVar[str] = "confusion"

    def value(self, row: Row) -> tuple[str, ...]:
        return (require_label(row, self.columns[0]),)

    def targets(self, values: Sequence[tuple[str, ...]], locations: Sequence[str]) -> npt.NDArray[np.int64]:
        return np.array([number for (number,) in self.numbers(values, locations)], np.int64)


def require_label(row: Row, column: Column) -> str:
    """Return the text of a label without surrounding white space. Raises DataError if it is empty."""
    label = text_of(row, column).strip()
    if not label:
        raise DataError("the example has no label", where=row.where, why=f"{column!r} is empty", help="add a label")
    return label


def ranked(names: Sequence[str], log_p: Tensor) -> tuple[Alternative, ...]:
    """Return labels with their log-probabilities, the most likely first."""
    order = log_p.argsort(descending=True).tolist()
    return tuple(Alternative(names[number], float(log_p[number])) for number in order)


def to_json(output: Any) -> str:
    """Return a prediction as a JSON object without its weights.

    ``output``: a NamedTuple with the fields of ``InputContext``.
    """
    values = {name: value for name, value in output._asdict().items() if name not in ("weights", "cut")}
    return json.dumps(_rounded(values) | ({"cut": True} if output.cut else {}), ensure_ascii=False)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return round(value, DECIMALS) if isinstance(value, float) else value
