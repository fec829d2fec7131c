"""The contract of an answer: the meaning of a network's outputs, from targets and losses to written predictions.

An answer is learned from the values of the training rows, saved in the run, and opened again. It depends on no network
and no input. ``loss``, ``compute_metrics`` and ``metrics`` do not require ``learn``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy.typing as npt
from torch import Tensor

from regard.core.observation import Alternative, PredictionKind
from regard.core.outcomes import TargetOutcome
from regard.core.task import Metric, MetricSums, MetricTable, Report, RunFiles

if TYPE_CHECKING:
    from pydantic import BaseModel


MAX_ALTERNATIVES = 10  # displayed per position


class LossAndSums(NamedTuple):
    """The loss of each row, and the sums to report.

    Attributes:
        loss: (rows,) to be minimized.
        sums: sums over the rows.
    """

    loss: Tensor
    sums: MetricSums


class InputContext(NamedTuple):
    """Facts about an input that its prediction repeats.

    Attributes:
        weights: each position's label and its weight in the pooled vector.
        truncated: the input was shortened.
        tokens: the text of each answered position of the value, for an answer per position.
        values: the value of each field.
    """

    weights: Sequence[tuple[str, float]] = ()
    truncated: bool = False
    tokens: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()


class TaskAnswer(Protocol):
    """The meaning of outputs.

    For an answer per position (``per_position``), a row below is one answered position of a ``PositionField``, with the
    positions of all values concatenated. ``measure`` and ``predict`` get the positions of one value.
    """

    per_position: ClassVar[bool]
    kind: ClassVar[PredictionKind]  # of a prediction that is inspected
    metrics: ClassVar[Mapping[str, Metric]]
    settings: ClassVar[type[BaseModel]]  # of a prediction: all optional, for Python, the command line and HTTP
    marker: ClassVar[str]  # the name of a sum that no other answer of the same task has
    columns: tuple[int | str, ...]

    @property
    def defaults(self) -> BaseModel:
        """The default settings of a prediction: an instance of ``settings``."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes that the network requires: the number of its outputs."""

    @property
    def unit(self) -> float:
        """The unit of targets, in the unit of the data."""

    @property
    def output_scale(self) -> tuple[float, float]:
        """Factor and shift from the network's outputs to those that ``predict`` uses, for exports."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Label names, ordered by class index; () for an answer without classes."""

    def value(self, row: Any) -> Any:
        """Return the value of a row. Raises DataError, with the location, if a cell is wrong or empty."""

    def names(self, value: Any) -> tuple[str, ...]:
        """Return the labels of a value that training must contain; () for an answer without labels."""

    def learn(self, run: RunFiles, values: Sequence[Any], locations: Sequence[str], log: Report, *, where: str) -> Self:
        """Learn from the values of the training rows, save, and return self.

        Args:
            run: the files of the run.
            values: of the training rows.
            locations: file and line of each value.
            log: receives a summary of the learned codecs.
            where: the training file, for messages.

        Raises:
            DataError: the values cannot be learned.
        """

    def open(self, run: RunFiles) -> Self:
        """Open the codecs that ``learn`` saved, and return self. Raises ModelError if they are damaged."""

    def targets(self, values: Sequence[Any], locations: Sequence[str]) -> npt.NDArray[Any]:
        """Return the targets (rows, …) of values. Raises DataError, with the location, for an unknown label."""

    def row_weights(self, targets: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return (rows,) the factors of each row's loss; rows with 0 are not counted."""

    @property
    def baseline(self) -> Any:
        """The value that a model without inputs predicts: the majority label, or the mean."""

    def baseline_targets(self, values: Sequence[Any]) -> npt.NDArray[Any] | None:
        """Return a baseline's predictions for the targets of values, such as the most frequent tag of a word.

        The result is numbers (rows, …), which ``compare`` reads; None: there is no such baseline.
        """

    def compare(self, outputs: Tensor, targets: Tensor, baseline: Tensor) -> MetricSums:
        """Return the sums of a baseline, and those of the outputs that are compared with them.

        They are added to those of ``loss``: in evaluation, and in training if the network returns logits.
        """

    @property
    def measured(self) -> Collection[str]:
        """The metrics of ``measure`` that are available for the learned labels."""

    def loss(
        self, outputs: Tensor, targets: Tensor, unit: Tensor, *, smoothing: float, evaluating: bool
    ) -> LossAndSums:
        """Compute the loss of each row.

        Args:
            outputs: (rows, outputs) of the network.
            targets: (rows, …).
            unit: (rows,) ``unit`` of the opened answer.
            smoothing: label smoothing, if the answer supports it.
            evaluating: whether to add the sums that only evaluation reports.
        """

    @staticmethod
    def compute_metrics(sums: MetricSums) -> dict[str, float]:
        """Return the metrics of sums: ratios, which depend on no codec."""

    def tables(self, sums: MetricSums) -> Mapping[str, MetricTable]:
        """Return the tables of an evaluation."""

    def measure(self, outputs: Tensor, targets: Tensor) -> MetricSums:
        """Return sums over predictions, for the metrics with ``by_predictor``."""

    def predict(self, outputs: Tensor, settings: Any, context: InputContext) -> Any:
        """Return the prediction of one value under ``settings``, an instance of the model.

        ``outputs``: (outputs,), or (positions, outputs) for an answer per position.
        """

    def write(self, output: Any, *, json: bool) -> str:
        """Return a prediction as one line: readable text, or a JSON object."""

    def outcomes(self, outputs: Tensor, targets: Tensor) -> list[TargetOutcome]:
        """Return the target and the prediction of each row, for the analysis of errors.

        The rows are those of ``targets``; for an answer per position, they are the positions of one value.
        """

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        """Return the log-probabilities (…, classes) of ``class_names`` from outputs (…, outputs); not for numbers."""

    def alternatives(self, outputs: Tensor) -> tuple[Alternative, ...]:
        """Return the labels of one row's outputs with their log-probabilities, most probable first.

        All labels, or ``MAX_ALTERNATIVES`` of a large vocabulary.
        """


class ContinuingAnswer(TaskAnswer, Protocol):
    """An answer per position of a ``ContinuedField``: the label of the next position.

    The loss is cross-entropy, which the network's head may compute without logits: row weights are 0 or 1.
    """

    def log_probability(self, outputs: Tensor, label: str) -> float:
        """Return the log-probability of a label, which is the text of a position."""
