"""Any number of labels per example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel
from torch import Tensor
from torch.nn.functional import logsigmoid

from regard.answers.answer_base import NoSettings
from regard.answers.losses import label_set_loss
from regard.answers.named_labels import NamedLabels, ranked, to_json
from regard.config.prediction_settings import ThresholdSettings
from regard.config.setting_models import request_model
from regard.core.answer import InputContext, LossAndSums
from regard.core.observation import Alternative, PredictionKind
from regard.core.outcomes import TargetOutcome
from regard.core.task import Metric, MetricSums, MetricTable, Report, RunFiles
from regard.core.untrusted_files import shortened
from regard.data.rows import Column, Row, text_of
from regard.errors import DataError
from regard.metrics.classes import label_set_metrics, label_set_tables

if TYPE_CHECKING:
    LabelSetSettings = ThresholdSettings
else:
    LabelSetSettings = request_model(ThresholdSettings, base=NoSettings)

YES, NO = ("1", "1.0", "true", "yes"), ("", "0", "0.0", "false", "no")  # cells of a column that marks one label


class LabelSet(NamedTuple):
    """Any number of labels.

    Attributes:
        labels: those with a probability of at least ``threshold``.
        probabilities: of all labels, by name; they are independent of each other.
        weights: the label and the weight of each position in the pooled vector; empty unless the network pools by
            attention.
        cut: whether the input was shortened to the limit of the run.
    """

    labels: tuple[str, ...]
    probabilities: dict[str, float]
    weights: Sequence[tuple[str, float]]
    cut: bool


class SeveralLabels(NamedLabels):
    """Any number of labels per example.

    Args:
        columns: one column with the labels of each example, as a list or separated; with ``marked``, one column per
            label.
        separator: separator between labels.
        marked: whether each column has the name of a label and marks it with yes or no.
    """

    kind: ClassVar[PredictionKind] = "labels"
    marker: ClassVar[str] = "label_counts"
    settings: ClassVar[type[BaseModel]] = LabelSetSettings
    metrics: ClassVar[Mapping[str, Metric]] = {
        "exact_match": Metric(lower_is_better=False),
        "micro_f1": Metric(lower_is_better=False, baseline="usual_micro_f1"),
        "usual_micro_f1": Metric(lower_is_better=False),
    }

    def __init__(self, columns: tuple[Column, ...], *, separator: str = ",", marked: bool = False) -> None:
        super().__init__(columns)
        self.separator, self.marked = separator, marked

    def value(self, row: Row) -> tuple[str, ...]:
        if self.marked:
            return _marked_labels({str(column): text_of(row, column) for column in self.columns}, row.where)
        cell = row.cells[self.columns[0]]
        labels = (label.strip() for label in (cell.split(self.separator) if isinstance(cell, str) else cell))
        return tuple(dict.fromkeys(label for label in labels if label))

    def learn(self, run: RunFiles, values: Sequence[Any], locations: Sequence[str], log: Report, *, where: str) -> Self:
        known = {label for value in values for label in value}
        if self.marked and (absent := [label for label in map(str, self.columns) if label not in known]):
            what, help = f"no example has the label {absent[0]!r}", "omit its column from data.label"
            raise DataError(what, where=where, why="its column is no in every row", help=help)
        return super().learn(run, values, locations, log, where=where)

    def targets(self, values: Sequence[tuple[str, ...]], locations: Sequence[str]) -> npt.NDArray[Any]:
        table = np.zeros((len(values), len(self.labels.names)))
        for row, classes in zip(table, self.numbers(values, locations), strict=True):
            row[classes] = 1
        return table

    def loss(
        self, outputs: Tensor, targets: Tensor, unit: Tensor, *, smoothing: float, evaluating: bool
    ) -> LossAndSums:
        return label_set_loss(outputs, targets)

    @staticmethod
    def compute_metrics(sums: MetricSums) -> dict[str, float]:
        return label_set_metrics(sums)

    def tables(self, sums: MetricSums) -> Mapping[str, MetricTable]:
        return label_set_tables(sums, self.labels.names)

    def predict(self, outputs: Tensor, settings: LabelSetSettings, context: InputContext) -> LabelSet:
        p = dict(zip(self.labels.names, outputs.sigmoid().tolist(), strict=True))
        threshold = 0.5 if settings.threshold is None else settings.threshold
        return LabelSet(tuple(label for label in p if p[label] >= threshold), p, context.weights, context.truncated)

    def write(self, output: LabelSet, *, json: bool) -> str:
        """Return the labels with separators, or all probabilities as JSON."""
        return to_json(output) if json else self.separator.join(output.labels)

    def outcomes(self, outputs: Tensor, targets: Tensor) -> list[TargetOutcome]:
        """Return the sets with their joint probabilities; the labels of an example are independent of each other."""
        true, predicted = targets > 0.5, outputs >= 0
        names = (
            [self.separator.join(compress(self.labels.names, row)) for row in table] for table in (true, predicted)
        )
        p, true_p = (_log_p(outputs, table).exp().tolist() for table in (predicted, true))
        return [TargetOutcome(*row) for row in zip(*names, p, true_p, strict=True)]

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return logsigmoid(outputs)

    def alternatives(self, outputs: Tensor) -> tuple[Alternative, ...]:
        return ranked(self.labels.names, self.log_probabilities(outputs))


def _log_p(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the log-probability (rows,) of exactly these labels (rows, classes)."""
    return logsigmoid(outputs.where(labels, -outputs)).sum(-1)


def _marked_labels(cells: Mapping[str, str], where: str) -> tuple[str, ...]:
    """Return the labels that a row marks. Raises DataError for a cell that is neither yes nor no."""
    labels = []
    for label, cell in cells.items():
        value = cell.strip().lower()
        if value not in YES + NO:
            why = f"yes is written as {', '.join(YES)}; no as {', '.join(NO[1:])} or an empty cell"
            raise DataError(f"column {label}: {shortened(cell)!r} is neither yes nor no", where=where, why=why)
        if value in YES:
            labels.append(label)
    return tuple(labels)
