"""Output of evaluation results and their tables, as text and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.commands.comparison_output import comparison_as_json, print_comparison
from regard.commands.error_output import errors_as_json, print_errors
from regard.commands.metric_tables import aligned, table_as_json
from regard.core.wording import pluralize, pluralize_unit

if TYPE_CHECKING:
    from regard.core.task import Metric
    from regard.metrics.significance import BootstrapDifference, OnlyRight
    from regard.tasks.evaluation import Evaluation
    from regard.tasks.run_comparison import RunComparison

DRAWN = {"calibration"}  # tables that --draw draws and --json contains
MAX_ROWS = 20  # larger tables are not printed; --json contains them


def print_figures(
    evaluation: Evaluation, metrics: Mapping[str, Metric], *, as_json: bool, loss_unit: str,
    errors: bool = False, comparison: RunComparison | None = None,
) -> None:  # fmt: skip
    """Print the metrics of a task whose metrics are ratios of sums over examples.

    Args:
        evaluation: the evaluation.
        metrics: the metrics of the task.
        as_json: whether to print JSON.
        loss_unit: the unit of the loss; may be empty.
        errors: whether to print the analysis of errors; the evaluation then has ``outcomes``.
        comparison: the comparison with another run.
    """
    if as_json:
        record = evaluation._asdict() | {"seconds": round(evaluation.seconds, 3), "tables": _tables_as_json(evaluation)}
        record["baseline"] = _baseline_as_json(evaluation)
        if errors and evaluation.outcomes is not None:
            record["errors"] = errors_as_json(evaluation.outcomes.rows)
        if comparison is not None:
            record["against"] = comparison_as_json(comparison)
        unused = ("signatures", "outputs", "outcomes")
        return _print_json({name: value for name, value in record.items() if name not in unused})
    width = max(map(len, evaluation.figures))
    for name, value in evaluation.figures.items():
        unit = f" {loss_unit}".rstrip() if name == "loss" else ""
        print(f"{name:<{width}}  {value:.4f}{unit}{_comparison(evaluation, name, metrics)}")
    _print_baseline(evaluation)
    for name, table in evaluation.tables.items():
        if len(table.rows) <= MAX_ROWS and name not in DRAWN:
            print("\n" + aligned(table) + "\n")
    if errors and evaluation.outcomes is not None:
        print_errors(evaluation.outcomes.rows)
    print(_summary(evaluation))
    if comparison is not None and evaluation.outcomes is not None:
        fitted = {name for name, metric in metrics.items() if not metric.ratio}  # to these examples
        names = [name for name in evaluation.figures if name not in _constant(metrics) | fitted]
        print_comparison(comparison, names, len(evaluation.outcomes.rows))


def _summary(evaluation: Evaluation) -> str:
    """Return the line of numbers, settings and the checkpoint."""
    counts = [pluralize_unit(int(value), name) for name, value in evaluation.sums.items() if value.is_integer()]
    settings = [
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
        for name, value in evaluation.settings.items()
    ]
    end = [f"checkpoint {evaluation.checkpoint}", f"{evaluation.seconds:.1f} s"]
    return ", ".join([*_sizes(evaluation), *counts, *settings, *end])


def _print_baseline(evaluation: Evaluation) -> None:
    """Print the description of the baseline, if there is one."""
    if evaluation.baseline is not None:
        errors = [error for _, error in evaluation.baseline.differences.values() if not math.isnan(error)]
        spread = "; ± one standard error of the difference" if errors else ""
        print(f"baseline: {evaluation.baseline.description}{spread}")


def _comparison(evaluation: Evaluation, name: str, metrics: Mapping[str, Metric], *, decimals: int = 4) -> str:
    """Return the figure of the baseline and the difference to it; empty for a metric that no prediction affects."""
    if evaluation.baseline is None or name not in evaluation.baseline.differences or name in _constant(metrics):
        return ""
    difference, error = evaluation.baseline.differences[name]
    spread = "" if math.isnan(error) else f" ± {error:.{decimals}f}"  # too few examples
    return f"  baseline {evaluation.baseline.figures[name]:.{decimals}f}  {difference:+.{decimals}f}{spread}"


def _constant(metrics: Mapping[str, Metric]) -> set[str | float | None]:
    """Return the metrics that no prediction affects: those of models that ignore their inputs."""
    return {metric.baseline for metric in metrics.values()}


def _baseline_as_json(evaluation: Evaluation) -> dict[str, Any] | None:
    """Return the baseline's figures and the differences; an unknown standard error is null."""
    if evaluation.baseline is None:
        return None
    differences = {
        name: {"value": value, "standard_error": None if math.isnan(error) else error}
        for name, (value, error) in evaluation.baseline.differences.items()
    }
    return evaluation.baseline._asdict() | {"differences": differences}


def _sizes(evaluation: Evaluation) -> list[str]:
    """Return the number of examples, and of the task's units if the sums do not contain it.

    A task on one graph has one example and is counted in nodes.
    """
    examples = pluralize(evaluation.examples, "example")
    if evaluation.units is None or evaluation.unit in evaluation.sums:
        return [examples]
    units = pluralize_unit(evaluation.units, evaluation.unit)
    return [units] if evaluation.examples in (1, evaluation.units) else [examples, units]


class Rival(NamedTuple):
    """Another system that is compared with a run.

    Attributes:
        name: its run folder or file.
        differences: the comparison of each metric.
        right: the numbers of distinct sources for which only one system's output equals a reference.
        sources: the number of distinct sources.
    """

    name: str
    differences: Sequence[BootstrapDifference]
    right: OnlyRight
    sources: int


def print_scores(
    evaluation: Evaluation, rival: Rival | None, metrics: Mapping[str, Metric], *, as_json: bool, errors: bool = False
) -> None:
    """Print each score with its signature, and the differences to another system.

    Args:
        evaluation: the evaluation.
        rival: the other system.
        metrics: the metrics of the task.
        as_json: whether to print JSON.
        errors: whether to print the analysis of errors; the evaluation then has ``outcomes``.
    """
    rows = evaluation.outcomes.rows if errors and evaluation.outcomes is not None else None
    if as_json:
        record = _scores_as_json(evaluation, metrics) | ({} if rival is None else _rival_as_json(rival))
        return _print_json(record | ({} if rows is None else {"errors": errors_as_json(rows)}))
    width = max(map(len, evaluation.figures))
    for name, value in evaluation.figures.items():
        compared = _comparison(evaluation, name, metrics, decimals=2)
        print(f"{name:<{width}}  {value:6.2f}{compared}  {evaluation.signatures[name]}")
    _print_baseline(evaluation)
    for table in evaluation.tables.values():
        print(f"\n{aligned(table, decimals=2)}\n")
    if rows is not None:
        print_errors(rows)
    lines, items = evaluation.examples, int(evaluation.sums["distinct_sources"])
    search = f"beam {evaluation.settings['beam']}, checkpoint {evaluation.checkpoint}"
    print(f"{pluralize(lines, 'line')}, {search}, {evaluation.seconds:.1f} s")
    if items < lines:
        print(
            f"{pluralize(items, 'distinct source')}: for wer and per, lines with equal sources are one item with "
            "several references; the other metrics count each line separately"
        )
    if rival is not None:
        _print_rival(rival)


def _print_rival(rival: Rival) -> None:
    from regard.metrics.significance import RESAMPLES

    print(f"\n{rival.name}: score, difference and p-value (paired bootstrap, {RESAMPLES:,} resamples)")
    width = max(len(score.metric) for score in rival.differences)
    for score in rival.differences:
        print(f"{score.metric:<{width}}  {score.other:6.2f}  {score.value - score.other:+6.2f}  p = {score.p:.4f}")
    right, of = rival.right, pluralize(rival.sources, "distinct source")
    test = f"McNemar's exact test: p = {right.p_value():.4f}"
    print(f"exact outputs of this run only: {right.this:,}, of the other only: {right.other:,}, of {of}; {test}")


def _rival_as_json(rival: Rival) -> dict[str, Any]:
    from regard.metrics.significance import RESAMPLES

    scores = {
        score.metric: {"value": score.other, "difference": score.value - score.other, "p": score.p}
        for score in rival.differences
    }
    exact = {"only_right": rival.right._asdict(), "p": rival.right.p_value()}
    test = f"paired bootstrap, {RESAMPLES} resamples"
    return {"against": {"name": rival.name, "scores": scores, "test": test, "exact": exact}}


def _scores_as_json(evaluation: Evaluation, metrics: Mapping[str, Metric]) -> dict[str, Any]:
    scores = {
        name: {
            "value": value, "signature": evaluation.signatures[name], "lower_is_better": metrics[name].lower_is_better,
        }
        for name, value in evaluation.figures.items()
    }  # fmt: skip
    return {
        "scores": scores,
        "tables": _tables_as_json(evaluation),
        "lines": evaluation.examples,
        "distinct_sources": int(evaluation.sums["distinct_sources"]),
        "checkpoint": evaluation.checkpoint,
        "search": evaluation.settings,
        "seconds": round(evaluation.seconds, 3),
        "baseline": _baseline_as_json(evaluation),
    }


def _tables_as_json(evaluation: Evaluation) -> dict[str, object]:
    return {name: table_as_json(table) for name, table in evaluation.tables.items()}


def _print_json(record: Mapping[str, Any]) -> None:
    print(json.dumps(record, indent=2))
