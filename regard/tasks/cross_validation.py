"""Cross-validation: each fold of the examples is measured with a run that is trained on the others."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from regard.core.outcomes import HeldOut, OutcomeRow
from regard.core.task import Report, find_task
from regard.core.wording import pluralize
from regard.errors import ConfigError, DataError
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.tasks.evaluation import Evaluation, EvaluationFiles, evaluate_examples, require_metrics
from regard.tasks.load import load_net
from regard.training.baseline import BaselineComparison
from regard.training.start import train

VALIDATED = 0.1  # share of the training folds that is validation data
BY_TARGET, BY_VALUE = {"accuracy"}, {"exact", "exact_match"}  # shares, in which unlearned targets or values are wrong

Train = Callable[[RunConfig, Path], Path]  # trains a run in a folder, or resumes it, and returns the folder


class Fold(NamedTuple):
    """A measured fold.

    Attributes:
        number: from 1.
        run: the run that was trained on the other folds.
        evaluation: the metrics of the fold; in shares such as accuracy, unlearned targets are wrong.
        rows: each target with its prediction.
        unlearned: the number of targets in values with a label that the training folds lack.
    """

    number: int
    run: Path
    evaluation: Evaluation
    rows: list[OutcomeRow]
    unlearned: int


class Mean(NamedTuple):
    """Mean over folds, and its standard error: the deviation of the folds over √folds."""

    value: float
    standard_error: float


class CrossValidation(NamedTuple):
    """All folds, and the means of each metric.

    Attributes:
        folds: the folds.
        figures: of the model, by metric.
        baseline: of the baseline; {} without one.
        differences: of the model minus the baseline, paired by fold.
    """

    folds: list[Fold]
    figures: dict[str, Mean]
    baseline: dict[str, Mean]
    differences: dict[str, Mean]

    @property
    def rows(self) -> list[OutcomeRow]:
        """The predictions for all examples, each by the run that was not trained on it, in the order of the files."""
        rows = [(fold.number, row) for fold in self.folds for row in fold.rows]
        ordered = sorted(rows, key=lambda pair: (*_place(pair[1].where), pair[0], pair[1].example))
        numbers: dict[tuple[int, int], int] = {}
        return [
            row._replace(example=numbers.setdefault((fold, row.example), len(numbers) + 1)) for fold, row in ordered
        ]


def cross_validate(
    config: RunConfig, folder: Path, number: int, *, train_run: Train = train, log: Report = lambda message: None
) -> CrossValidation:
    """Train and measure each fold, in ``folder/fold-1`` and so on; finished runs of the same config are not repeated.

    A fold is a part of the examples by the hash of their inputs, so equal inputs are in one fold. Validation data are a
    tenth of the training folds; the measured fold is used only after training.

    Args:
        config: the config of a run on all examples.
        folder: the folder of the runs.
        number: the number of folds, at least 2.
        train_run: trains a run.
        log: receives the numbers of the folds, and of values with a label that training lacks.

    Raises:
        ConfigError: if the task has no folds.
        DataError: if a fold has no example.
    """
    folds = []
    for index in range(number):
        own, measured = fold_configs(config, index, number)
        log(f"fold {index + 1} of {number}")
        fold = _measured(RunFolder.open(train_run(own, folder / f"fold-{index + 1}")), measured, index + 1)
        if fold.unlearned:
            count = pluralize(fold.unlearned, "target")
            log(f"fold {fold.number}: {count} in values with a label that the other folds lack, counted as wrong")
        folds.append(fold)
    figures = [fold.evaluation.figures for fold in folds]
    compared = [fold.evaluation.baseline for fold in folds]
    baselines = [one.figures for one in compared if one is not None]
    differences = [{name: value for name, (value, _) in one.differences.items()} for one in compared if one is not None]
    return CrossValidation(folds, _means(figures, number), _means(baselines, number), _means(differences, number))


def fold_configs(config: RunConfig, index: int, number: int) -> tuple[RunConfig, RunConfig]:
    """Return the config of the run that a fold is measured with, and the same with the fold as its training data.

    Args:
        config: the config of a run on all examples.
        index: the fold, from 0.
        number: the number of folds.

    Raises:
        ConfigError: if the task has no folds, or there are fewer than two.
    """
    if find_task(config.task.kind).held_out is None:
        why = f"the examples of the task {config.task.kind} are not divided by a hash"
        raise ConfigError("cross-validation does not apply to this task", where="--folds", why=why)
    if number < 2:
        raise ConfigError("cross-validation needs at least two folds", where="--folds", help="--folds 5")
    begin, end, validated = index / number, (index + 1) / number, VALIDATED * (1 - 1 / number)
    trained = {"train": _shares(config, end + validated, begin + 1), "valid": _shares(config, end, end + validated)}
    return _with_data(config, trained), _with_data(config, {"train": _shares(config, begin, end), "valid": None})


def _with_data(config: RunConfig, corpora: Mapping[str, Any]) -> RunConfig:
    data: Any = config.data
    unchanged = data.model_dump(mode="json", exclude={"train", "valid"}, exclude_none=True)
    return config.model_copy(update={"data": type(data).model_validate({**unchanged, **corpora})})


def _shares(config: RunConfig, begin: float, end: float) -> list[dict[str, Any]]:
    """Return the training corpora, limited to an interval of hashes that may go beyond 1, where it continues at 0."""
    data: Any = config.data
    intervals = [(max(begin - turn, 0.0), min(end - turn, 1.0)) for turn in (0, 1)]
    corpora = []
    for corpus in data.train:
        low, high = _whole(data, corpus)
        for first, last in intervals:
            if first < last:
                share = [low + (high - low) * first, low + (high - low) * last]
                corpora.append(corpus.model_dump(mode="json", exclude_none=True) | {"share": share})
    return corpora


def _whole(data: Any, corpus: Any) -> tuple[float, float]:
    """Return the share of a corpus, with the part that the config holds out of the same files for validation."""
    shares = [corpus.share, *(other.share for other in data.valid or () if other.source == corpus.source)]
    (low, first), *rest = sorted(share for share in shares)
    high = first
    for begin, end in rest:
        high = end if begin <= high else high
    return low, high


def _measured(run: RunFolder, config: RunConfig, number: int) -> Fold:
    """Measure a fold with the run of the others."""
    net, codecs, _ = load_net(run.path)
    assert run.task.held_out is not None
    with tempfile.TemporaryDirectory() as folder:
        files: Any = EvaluationFiles(run.path, Path(folder), run.tokenizers, config, {})
        held_out: HeldOut = run.task.held_out(files)
        if held_out.examples is None:
            why = "all of its examples have labels that the other folds lack" if held_out.unlearned else "it is empty"
            raise DataError(f"fold {number} cannot be measured", why=why, help="use fewer folds, or more examples")
        names = require_metrics(run, None)
        evaluation = evaluate_examples(run, config, net, codecs, names, held_out.examples, outcomes=True)
    assert evaluation.outcomes is not None
    rows = evaluation.outcomes.rows
    first = max(row.example for row in rows) + 1
    rows += [row._replace(example=first + index) for index, row in enumerate(held_out.rows)]
    targets, values = len(evaluation.outcomes.rows) - len(held_out.rows), len({row.example for row in rows})
    values -= len(held_out.rows)
    shares = dict.fromkeys(BY_TARGET, targets / (targets + held_out.targets))
    shares |= dict.fromkeys(BY_VALUE, values / (values + held_out.unlearned))
    return Fold(number, run.path, _with_shares(evaluation, shares), rows, held_out.targets)


def _with_shares(evaluation: Evaluation, shares: Mapping[str, float]) -> Evaluation:
    """Return an evaluation whose metrics with these names are multiplied by the share of learned targets."""
    figures = {name: value * shares.get(name, 1.0) for name, value in evaluation.figures.items()}
    baseline = evaluation.baseline
    if baseline is not None:
        differences = {
            name: (value * shares.get(name, 1.0), error * shares.get(name, 1.0))
            for name, (value, error) in baseline.differences.items()
        }
        baseline_figures = {name: value * shares.get(name, 1.0) for name, value in baseline.figures.items()}
        baseline = BaselineComparison(baseline.description, baseline_figures, differences)
    return evaluation._replace(figures=figures, baseline=baseline)


def _means(figures: Sequence[Mapping[str, float]], number: int) -> dict[str, Mean]:
    """Return the mean of each metric that all folds have."""
    if len(figures) < number:
        return {}
    shared = [name for name in figures[0] if all(name in fold for fold in figures)]
    columns = {name: [fold[name] for fold in figures] for name in shared}
    return {name: Mean(fmean(column), stdev(column) / math.sqrt(number)) for name, column in columns.items()}


def _place(where: str) -> tuple[str, int]:
    """Return the file and the line of a location."""
    file, _, line = where.rpartition(":")
    return (file, int(line)) if line.isdecimal() else (where, 0)
