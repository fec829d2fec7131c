"""Outcomes: the target and the prediction of each value of evaluated examples, for the analysis of errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from regard.core.task import MetricSums


class TargetOutcome(NamedTuple):
    """A target and its prediction.

    Attributes:
        target: the label, or the number in the unit of the data.
        prediction: likewise; the most probable label.
        probability: the probability of the prediction; None for a number.
        target_probability: the probability of the target; None for a number or an unknown label.
        rank: the rank of the target among all items, from 1; None for other answers.
        output: the label in the output of the model, if it can differ from the most probable one.
        log_probability: of a text, the log-probability of the prediction in nats.
        exact: of a text, whether the prediction equals a reference, ignoring white space.
        chrf: of a text, chrF of the prediction, in percent.
    """

    target: str | float
    prediction: str | float
    probability: float | None = None
    target_probability: float | None = None
    rank: int | None = None
    output: str | None = None
    log_probability: float | None = None
    exact: bool | None = None
    chrf: float | None = None

    @property
    def error(self) -> float | None:
        """Prediction minus target; None unless both are numbers."""
        if isinstance(self.target, str) or isinstance(self.prediction, str):
            return None
        return self.prediction - self.target


class OutcomeRow(NamedTuple):
    """The outcome of one answered value, or of one position of a value.

    Attributes:
        where: the file and line of the value.
        example: the number of the value, from 1.
        position: the number of the position in the value, from 1; None if the value has one answer.
        token: the text of the position; None if the value has one answer or the answer continues it.
        input: a readable text of the input.
        length: the number of positions of the input.
        outcome: the target and the prediction.
        loss: as in the metric ``loss``; None for a target that the loss does not count.
    """

    where: str
    example: int
    position: int | None
    token: str | None
    input: str
    length: int
    outcome: TargetOutcome
    loss: float | None

    @property
    def is_right(self) -> bool:
        """Return whether the prediction equals the target, or any reference of a text."""
        if self.outcome.exact is not None:
            return self.outcome.exact
        return self.outcome.prediction == self.outcome.target


class MeasuredRows(NamedTuple):
    """The rows of some values, and the sums of their metrics."""

    rows: list[OutcomeRow]
    sums: MetricSums


class Outcomes(Protocol):
    """The values of evaluated examples with the predictions of a model."""

    @property
    def unit(self) -> str:
        """Plural noun of the values, such as sentences; they are the samples of paired tests."""

    def __len__(self) -> int:
        """Return the number of values."""

    def measure(self, values: Sequence[int], names: Sequence[str]) -> MeasuredRows:
        """Return the rows of these values, and their sums for the loss and the metrics.

        Args:
            values: the indices of values, from 0.
            names: the metrics of the predictor to compute in addition to those of the objective.
        """


class HeldOut(NamedTuple):
    """The examples of a held-out part, for a run that was trained without it.

    Attributes:
        examples: as ``core.task.Examples``, those whose labels the run has learned; None without any.
        unlearned: the number of the other values.
        targets: the number of their targets.
        rows: their predictions, one for each value; () for answers per position.
    """

    examples: Any
    unlearned: int
    targets: int
    rows: Sequence[OutcomeRow]
