"""Comparison of two runs of one task on the same files, target by target."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.outcomes import OutcomeRow
from regard.errors import ConfigError
from regard.metrics.error_analysis import by_value, only_right, sign_flip_p
from regard.metrics.significance import OnlyRight
from regard.runs.run_folder import RunFolder
from regard.tasks.evaluation import config_with_files, open_files
from regard.tasks.load import load
from regard.tasks.measured_outcomes import MeasuredOutcomes, measure_outcomes
from regard.training.baseline import BaselineComparison, compare


class RunComparison(NamedTuple):
    """The difference between two runs.

    Attributes:
        metrics: the metrics of the other run, and the differences with standard errors, by a jackknife over groups of
            values.
        right: the numbers of targets that only one run predicts; None for numbers.
        p: the p-value of McNemar's test on these numbers; None for numbers. It is the exact test if each value has
            one target. Targets of one value are not independent: otherwise the signs of whole values are flipped.
        exact: whether each value has one target.
        loss_p: the p-value of a paired permutation test of the losses, which flips the signs of whole values.
        values: the number of values with a loss.
        unit: plural noun of the values.
    """

    metrics: BaselineComparison
    right: OnlyRight | None
    p: float | None
    exact: bool
    loss_p: float
    values: int
    unit: str


def require_comparable(run: RunFolder, other: RunFolder) -> None:
    """Raise ConfigError unless both runs have the same task and the same labels."""
    if other.config.task.kind != run.config.task.kind:
        why = f"the task of {run.path} is {run.config.task.kind}, that of {other.path} is {other.config.task.kind}"
        raise ConfigError("runs of different tasks cannot be compared", where="--against", why=why)
    predictors: list[Any] = [load(path) for path in (run.path, other.path)]
    labels = [{*predictor.labels} for predictor in predictors]
    if labels[0] != labels[1]:
        first = min(labels[0] ^ labels[1])
        owner = run if first in labels[0] else other
        why = f"only {owner.path} has the label {first!r}"
        if not all(labels):
            why = "one of them predicts numbers, the other labels"
        raise ConfigError("runs with different labels or tokens cannot be compared", where="--against", why=why)


def compare_runs(
    run: RunFolder, outcomes: MeasuredOutcomes, other: RunFolder, files: Sequence[Path], *,
    device: str | None = None, **settings: Any,
) -> RunComparison:  # fmt: skip
    """Compare a run with another one.

    Args:
        run: the run.
        outcomes: its outcomes on the files.
        other: the other run; see ``require_comparable``.
        files: the data files.
        device: see ``tasks.load.load``.
        settings: changed keys of the section ``data``.

    Raises:
        ConfigError: if the runs read different targets from the files.
    """
    with tempfile.TemporaryDirectory() as folder:
        examples = open_files(other, config_with_files(other, files, settings), Path(folder))
        other_outcomes = measure_outcomes(other.task, load(other.path, device=device), examples)
    _require_equal_targets(outcomes.rows, other_outcomes.rows)
    metrics = compare(run.task.compute_metrics, str(other.path), outcomes.groups, other_outcomes.groups)
    pairs = [*zip(outcomes.rows, other_outcomes.rows, strict=True)]
    right, p = only_right(outcomes.rows, other_outcomes.rows), None
    exact = all(row.position is None for row in outcomes.rows)
    if right is not None:
        p = right.p_value() if exact else sign_flip_p(by_value(pairs, lambda row: float(row.is_right)))
    losses = by_value(pairs, lambda row: row.loss)
    return RunComparison(metrics, right, p, exact, sign_flip_p(losses), len(losses), outcomes.unit)


def _require_equal_targets(rows: Sequence[OutcomeRow], other_rows: Sequence[OutcomeRow]) -> None:
    """Raise ConfigError if two runs have read different targets."""
    what, help = "the runs read different targets from these files", "train both with the same columns and limits"
    if len(rows) != len(other_rows):
        why = f"the numbers of targets are {len(rows):,} and {len(other_rows):,}"
        raise ConfigError(what, where="--against", why=why, help=help)
    for row, other in zip(rows, other_rows, strict=True):
        position, other_position = ((one.where, one.example, one.position, one.input) for one in (row, other))
        if position != other_position or not _equal(row, other):
            raise ConfigError(what, where=row.where, why=f"{row.outcome.target} and {other.outcome.target}", help=help)


def _equal(row: OutcomeRow, other: OutcomeRow) -> bool:
    """Return whether two targets are equal; numbers of two scales differ by rounding."""
    target, expected = row.outcome.target, other.outcome.target
    if isinstance(target, str) or isinstance(expected, str):
        return target == expected
    return abs(target - expected) <= 1e-6 * max(1.0, abs(expected))
