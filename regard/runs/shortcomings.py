"""Shortcomings of a finished training: it diverged, overfits, is below a baseline, or left examples unused."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from regard.core.baseline import FOLDER, baseline_summary
from regard.core.combination import open_weights
from regard.core.task import Metric
from regard.core.wording import figure_text, pluralize
from regard.runs import checkpoint
from regard.runs.baseline_choice import read_choice
from regard.runs.metrics_log import MetricsRecord, read_updates, read_validations
from regard.runs.run_folder import RunFolder

DIVERGED = 2.0  # factor by which the loss exceeds that of the untrained network
LAST_UPDATES = 10  # without validation data, their mean is the final loss


class Shortcoming(NamedTuple):
    """A problem of a finished run, and the command that trains a better one."""

    what: str
    help: str

    def __str__(self) -> str:
        return f"warning: {self.what}; {self.help}"


class _Course(NamedTuple):
    """Figures of a training, read from ``metrics.jsonl``: losses without smoothing, in the unit of validation."""

    start: float  # loss before the first update
    best: MetricsRecord  # figures of the default checkpoint
    last: MetricsRecord
    validated: bool
    updates: int
    epochs: int  # complete epochs
    fits: bool  # the training loss decreased

    @property
    def loss_name(self) -> str:
        return "validation loss" if self.validated else "training loss"


def shortcomings(run: RunFolder) -> list[Shortcoming]:
    """Return the shortcomings of a run that its metrics log shows; [] for a run without updates."""
    course = _course(run)
    if course is None:
        return []
    choice = read_choice(run.path)
    if choice is not None and choice.is_baseline:
        what = f"the network does not improve on its baseline, so the model is the baseline alone: {choice.figures}"
        return [Shortcoming(what, f"{_longer(run, course)}, or use more data")]
    if _is_baseline_alone(run, course):
        what = "the network does not improve on its baseline; the model is the baseline alone"
        return [Shortcoming(what, f"{_lower(run)}, or use more data")]
    diverged = list(_diverged(run, course))
    problems = [*diverged, *_below_baseline(run, course, diverged)]
    if course.epochs > 0 and not problems:
        return list(_learned_nothing(run, course))
    if course.epochs == 0:
        done = pluralize(course.updates, "update")
        what = f"training ended within its first epoch, after {done}: some examples are unused"
        problems.append(Shortcoming(what, _longer(run, course)))
    return problems


def _is_baseline_alone(run: RunFolder, course: _Course) -> bool:
    """Return whether the outputs of a model with a wide part are those of its baseline."""
    if run.config.is_combined:
        return open_weights(run).network == 0
    return run.config.wide and course.validated and course.best.step == 0


def _course(run: RunFolder) -> _Course | None:
    updates = read_updates(run.path / "metrics.jsonl")
    first = next(updates, None)
    if first is None:
        return None
    last = deque([first], maxlen=LAST_UPDATES)
    last.extend(updates)
    validations = list(read_validations(run.path / "metrics.jsonl"))
    done = int(last[-1].figures.get("epoch", 1))
    losses = [record.figures["nll"] for record in last if "nll" in record.figures]
    fits = bool(losses) and fmean(losses) < first.figures.get("nll", 0.0)
    if not validations:
        end = MetricsRecord(last[-1].step, {"loss": fmean(losses)} if losses else {})
        return _Course(first.figures.get("nll", 0.0), end, end, False, last[-1].step, done, fits)
    start = validations[0] if validations[0].step == 0 else first
    loss = start.figures.get("loss" if start is validations[0] else "nll", 0.0)
    marked = checkpoint.best_or_none(run.checkpoints)
    ordered = reversed(validations)  # figures of a combination follow those of its network at the same step
    best = next((v for v in ordered if marked is not None and v.step == marked.step), validations[-1])
    return _Course(loss, best, validations[-1], True, last[-1].step, done, fits)


def _diverged(run: RunFolder, course: _Course) -> Iterator[Shortcoming]:
    """Yield a shortcoming if the loss rose far above that of the untrained network: overfitting or divergence."""
    best, last = (record.figures.get("loss", 0.0) for record in (course.best, course.last))
    if last > DIVERGED * course.start > 0:
        before = f"{figure_text(course.start)} before the first update"
        if best < course.start:
            before = f"{figure_text(best)} at step {course.best.step:,}, the best checkpoint"
        verdict = "the model overfits" if course.fits else "training diverged"
        what = f"{verdict}: {course.loss_name} {figure_text(last)}, {before}"
        yield Shortcoming(what, _earlier(run) if course.fits else _lower(run))


def _learned_nothing(run: RunFolder, course: _Course) -> Iterator[Shortcoming]:
    """Yield a shortcoming if the loss never fell below that of the untrained network."""
    best = course.best.figures.get("loss", 0.0)
    if best >= course.start > 0:
        what = f"nothing was learned: {course.loss_name} {figure_text(best)}, {figure_text(course.start)} at the start"
        yield Shortcoming(what, f"{_lower(run)}, or {_longer(run, course)}")


def _below_baseline(run: RunFolder, course: _Course, diverged: Sequence[Shortcoming]) -> Iterator[Shortcoming]:
    """Yield a shortcoming if the network is below its baseline, or no better than one that ignores the inputs."""
    figures = course.best.figures
    summary = baseline_summary(run.path / FOLDER)
    by = None if summary is None else _compared(run, summary.figures, figures)
    if summary is not None and by is not None and not _at_least(run, by, figures[by], summary.figures[by]):
        values = f"{by} {figures[by]:.4f}, {summary.figures[by]:.4f} by {summary.description}"
        help = diverged[0].help if diverged else f"{_longer(run, course)}, or use more data"
        yield Shortcoming(f"the network is below a simple baseline: {values}", help)
        return
    below = [
        f"{name} {figures[name]:.4f} (baseline {label} {baseline:.4f})"
        for name, metric in run.task.metrics.items()
        for label, baseline in _baseline(metric, figures)
        if name in figures and not _better(metric, figures[name], baseline)
    ]
    if below:
        help = diverged[0].help if diverged else f"{_longer(run, course)}, or use more data or another learning rate"
        yield Shortcoming(f"the model is no better than its baseline: {', '.join(below)}", help)


def _compared(run: RunFolder, baseline: Mapping[str, float], figures: Mapping[str, float]) -> str | None:
    """Return the metric by which the run is compared with its baseline: the first that both have, else the loss."""
    names = (*run.task.metrics, "loss")
    return next((name for name in names if name in baseline and name in figures), None)


def _at_least(run: RunFolder, name: str, value: float, limit: float) -> bool:
    """Return whether a value of a metric is at least as good as ``limit``."""
    lower_is_better = name == "loss" or run.task.metrics[name].lower_is_better
    return value <= limit if lower_is_better else value >= limit


def _baseline(metric: Metric, figures: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    if isinstance(metric.baseline, str):
        if metric.baseline in figures:
            yield metric.baseline, figures[metric.baseline]
    elif metric.baseline is not None:
        yield "of chance", metric.baseline


def _better(metric: Metric, value: float, baseline: float) -> bool:
    """Return whether a value is better than a baseline; a perfect value is, even if the baseline is perfect, too."""
    if value == baseline:
        return value == (0.0 if metric.lower_is_better else 1.0)
    return value < baseline if metric.lower_is_better else value > baseline


def _longer(run: RunFolder, course: _Course) -> str:
    return f"train longer: regard train --continue {run.path} --set train.epochs={max(2 * course.epochs, 1)}"


def _earlier(run: RunFolder) -> str:
    return f"use more data, or stop earlier: regard train {run.path / 'config.toml'} --set train.early_stopping=2"


def _lower(run: RunFolder) -> str:
    rate = f"{run.config.train.lower_learning_rate:.2g}"
    return f"lower the learning rate: regard train {run.path / 'config.toml'} --set train.lr={rate}"
