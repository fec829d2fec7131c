"""The outcomes of a whole evaluation, with the sums of the metrics by group of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from regard.core.outcomes import OutcomeRow, Outcomes
from regard.core.task import Examples, MetricSums, Task
from regard.errors import ConfigError
from regard.training.baseline import GROUPS


class MeasuredOutcomes(NamedTuple):
    """All rows in the order of the files, and the sums of ``GROUPS`` groups of values.

    Value v is in group v mod ``GROUPS``; two runs on the same files therefore have the same groups. ``unit`` is the
    plural noun of the values.
    """

    rows: list[OutcomeRow]
    groups: list[MetricSums]
    unit: str = "examples"


def measure_outcomes(task: Task, predictor: Any, examples: Examples) -> MeasuredOutcomes:
    """Return the outcomes of all values, with the sums of all metrics that the predictor can measure.

    Raises:
        ConfigError: if the task has no outcomes.
    """
    names = [name for name, metric in task.metrics.items() if metric.by_predictor and not metric.slow]
    return measure_values(require_outcomes(task)(predictor, examples), names)


def measure_values(outcomes: Outcomes, names: Sequence[str]) -> MeasuredOutcomes:
    """Return all rows of outcomes, and the sums by group for the loss and the metrics of the predictor ``names``."""
    parts = [
        outcomes.measure(range(first, len(outcomes), GROUPS), names) for first in range(min(GROUPS, len(outcomes)))
    ]
    rows = sorted((row for part in parts for row in part.rows), key=lambda row: (row.example, row.position or 0))
    return MeasuredOutcomes(rows, [part.sums for part in parts], outcomes.unit)


def require_outcomes(task: Task) -> Any:
    """Return ``task.outcomes``; raise ConfigError if the task has no separate answers."""
    if task.outcomes is None:
        why = f"the task {task.name} has no separate answers with targets"
        raise ConfigError("the targets of this run cannot be evaluated one by one", why=why)
    return task.outcomes
