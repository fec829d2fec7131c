"""Cross-validation by ``regard train --folds N``, and its output as text and as JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from regard.commands.prediction_files import require_prediction_file, write_predictions
from regard.core.wording import pluralize

if TYPE_CHECKING:
    from regard.core.task import Metric
    from regard.runs.run_config import RunConfig
    from regard.tasks.cross_validation import CrossValidation, Mean
    from regard.training.start import OpenDisplay


class FoldJob(NamedTuple):
    """The config of a run on all examples, and the folder for the runs of the folds."""

    config: RunConfig
    folder: Path


def cross_validate(job: FoldJob, number: int, display: OpenDisplay, *, output: Path | None, as_json: bool) -> None:
    """Cross-validate and print the result.

    Args:
        job: the config and the folder.
        number: the number of folds.
        display: opens the display of a training.
        output: a file for the predictions.
        as_json: whether to print JSON.
    """
    from regard.core.task import find_task
    from regard.runs.run_folder import RunFolder
    from regard.tasks.cross_validation import cross_validate
    from regard.training.start import train_new, train_run

    if output is not None:
        require_prediction_file(output)

    def train(config: RunConfig, folder: Path) -> Path:
        exists = (folder / "config.toml").is_file() and RunFolder.open(folder).config == config
        run = RunFolder.open(folder) if exists else RunFolder.create(folder, config)
        if code := (train_run if exists else train_new)(run, display):
            raise typer.Exit(code)
        return run.path

    result = cross_validate(
        job.config, job.folder, number, train_run=train, log=lambda message: typer.echo(message, err=True)
    )
    if output is not None:
        write_predictions(result.rows, output)
    if as_json:
        print(json.dumps(_as_json(result), indent=2))
    else:
        _print(result, find_task(job.config.task.kind).metrics)


def _print(result: CrossValidation, metrics: dict[str, Metric] | Any) -> None:
    """Print a table of the folds, and the means of the model, the baseline, and the difference."""
    constant = {metric.baseline for metric in metrics.values()}
    fitted = {name for name, metric in metrics.items() if not metric.ratio}  # to the measured examples
    names = [name for name in result.figures if name not in constant | fitted]
    lines = [["fold", "targets", *names]]
    for fold in result.folds:
        figures = [f"{fold.evaluation.figures[name]:.4f}" for name in names]
        lines.append([str(fold.number), f"{_targets(fold.evaluation, fold.unlearned):,}", *figures])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    print(f"\nmean ± standard error over {pluralize(len(result.folds), 'fold')}")
    width = max(map(len, names))
    for name in names:
        compared = ""
        if name in result.differences:
            compared = f"  baseline {_text(result.baseline[name])}  difference {_text(result.differences[name], '+')}"
        print(f"{name:<{width}}  {_text(result.figures[name])}{compared}")
    if unlearned := sum(fold.unlearned for fold in result.folds):
        print(f"{pluralize(unlearned, 'target')} in values with a label that the other folds lack, counted as wrong")
    print(f"runs: {result.folds[0].run.parent}")


def _targets(evaluation: Any, unlearned: int) -> int:
    """Return the number of targets of a fold."""
    return (evaluation.units or evaluation.examples) + unlearned


def _text(mean: Mean, sign: str = "") -> str:
    return f"{mean.value:{sign}.4f} ± {mean.standard_error:.4f}"


def _as_json(result: CrossValidation) -> dict[str, Any]:
    """Return the folds and the means as a JSON object; an unknown standard error is null."""
    folds = []
    for fold in result.folds:
        record: dict[str, Any] = {"fold": fold.number, "run": str(fold.run), "figures": fold.evaluation.figures}
        record |= {"targets": _targets(fold.evaluation, fold.unlearned), "unlearned": fold.unlearned}
        if fold.evaluation.baseline is not None:
            record["baseline"] = fold.evaluation.baseline.figures
            record["differences"] = {
                name: {"value": value, "standard_error": None if math.isnan(error) else error}
                for name, (value, error) in fold.evaluation.baseline.differences.items()
            }
        folds.append(record)
    means = {
        name: {metric: mean._asdict() for metric, mean in values.items()}
        for name, values in (
            ("figures", result.figures), ("baseline", result.baseline), ("differences", result.differences),
        )
    }  # fmt: skip
    return {"folds": folds, **means}
