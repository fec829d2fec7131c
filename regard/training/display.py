"""Displays of a running training: a live line on a terminal or one line per minute; a progress bar in a notebook."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from regard.core.task import find_task
from regard.core.wording import figure_text, pluralize
from regard.training.progress import (
    FAILED,
    INTERRUPTED,
    STOPPED,
    NullReporter,
    Outcome,
    TrainingProgress,
    TrainingStart,
    Validation,
)

PLAIN_EVERY = 60.0  # seconds between lines without a terminal
FIRST_VALIDATIONS = 20  # all are printed; of later ones, one per VALIDATIONS_EVERY seconds and the last
VALIDATIONS_EVERY = 10.0
BAR_EVERY = 0.25  # seconds between two states of the bar in a notebook
SMOOTHING = 0.95  # weight of the past in the moving average of tokens per second


class TrainingDisplay(NullReporter):
    """A reporter that writes to standard error; ``report`` names further reporters of the session."""

    def __init__(self, run: Path, *, report: Sequence[str] = (), console: Console | None = None) -> None:
        self.run, self.report = run, report
        self.unit = "tokens"  # replaced by the unit of the task once it is known
        self.validations, self.last_validation = 0, 0.0
        self.unprinted: str | None = None  # the line of the last validation, if it was not printed
        self.console = console or Console(stderr=True, highlight=False)
        self.live = self.console.is_terminal
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, TextColumn("{task.fields[figures]}"), console=self.console, disable=not self.live)
        self.task: TaskID | None = None
        self.speed: float | None = None
        self.last_line = 0.0

    def __enter__(self) -> TrainingDisplay:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def log(self, message: str) -> None:
        self.console.print(message, markup=False, soft_wrap=True)  # unwrapped, to copy a path or command as one line

    def prepared(self, examples: int) -> None:
        if self.live:
            self._advance("preparing", examples, None, "examples")

    def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None:
        now = figures["tokens"] / figures["seconds"]
        self.speed = now if self.speed is None else SMOOTHING * self.speed + (1 - SMOOTHING) * now
        shown = f"epoch {progress.epoch + 1} · loss {figures['loss']:.3f} · {self.speed:,.0f} {self.unit}/s"
        if self.live:
            self._advance("training", progress.step, steps, shown)
        elif time.monotonic() - self.last_line > PLAIN_EVERY:
            self.last_line = time.monotonic()
            total = "" if steps is None else f" of {steps:,}, {_left(progress, steps)} left"
            self.log(f"step {progress.step:,}{total} · {shown}")

    def validated(self, progress: TrainingProgress, validation: Validation, best: bool) -> None:
        metrics = "".join(f" · {name} {figure_text(value)}" for name, value in validation.metrics.items())
        mark = " (best)" if best else ""
        line = f"step {progress.step:,} · validation loss {figure_text(validation.loss)}{mark}{metrics}"
        self.validations, now = self.validations + 1, time.monotonic()
        if self.validations <= FIRST_VALIDATIONS or now - self.last_validation >= VALIDATIONS_EVERY:
            self.unprinted, self.last_validation = None, now
            self.log(line)
        else:
            self.unprinted = line

    def finished(self, outcome: Outcome) -> None:
        progress = outcome.progress
        if self.unprinted is not None:
            self.log(self.unprinted)
        if outcome.reason == FAILED:  # the exception is reported where it is caught
            return
        if outcome.reason in (INTERRUPTED, STOPPED):
            stopped = "stopped" if outcome.reason == INTERRUPTED else STOPPED
            if not progress.step:
                self.log(f"{stopped} before the first update; to start it: {self._resume()}")
                return
            self.log(f"{stopped} and saved at step {progress.step:,}; to continue: {self._resume()}")
            return
        done = f"finished ({outcome.reason}): {pluralize(progress.step, 'update')} in {_duration(progress.seconds)}"
        hidden = self.validations > FIRST_VALIDATIONS and progress.best_step
        self.log(f"{done}; best validation: step {progress.best_step:,}" if hidden else done)

    def _resume(self) -> str:
        return f"regard train --resume {self.run}"

    def _advance(self, what: str, done: int, total: int | None, figures: str) -> None:
        if self.task is None:
            self.task = self.bar.add_task(what, total=total, figures="")
        self.bar.update(self.task, description=what, completed=done, total=total, figures=figures)


class NotebookDisplay(TrainingDisplay):
    """A progress bar in the output of a notebook's cell, with a line for each validation."""

    def __init__(self) -> None:
        super().__init__(Path(), console=Console(force_jupyter=False, force_terminal=False, highlight=False))
        self.live = True
        self.handle: Any = None  # of the bar, in IPython
        self.last_bar = 0.0
        self.content: dict[str, str] = {}

    def started(self, start: TrainingStart) -> None:
        self.run, self.unit = start.folder, find_task(start.config.task.kind).unit

    def finished(self, outcome: Outcome) -> None:
        self._draw()
        super().finished(outcome)

    def _resume(self) -> str:
        return "call regard.train again"

    def _advance(self, what: str, done: int, total: int | None, figures: str) -> None:
        numbers = f"{done:,}" if total is None else f"{done:,}/{total:,}"
        line = f"{what} {numbers} {figures}"
        limits = "" if total is None else f' value="{done}" max="{total}"'
        self.content = {"text/plain": line, "text/html": f"<progress{limits}></progress> {html.escape(line)}"}
        if time.monotonic() - self.last_bar >= BAR_EVERY:
            self._draw()

    def _draw(self) -> None:
        if not self.content:
            return
        from IPython.display import display

        self.last_bar = time.monotonic()
        if self.handle is None:
            self.handle = display(self.content, raw=True, display_id=True)
        else:
            self.handle.update(self.content, raw=True)


def in_notebook() -> bool:
    """Return whether this program runs in the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _left(progress: TrainingProgress, steps: int) -> str:
    seconds = progress.seconds / max(progress.step, 1) * (steps - progress.step)
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _duration(seconds: float) -> str:
    """Return a duration as text: in seconds below one minute, in hours from two hours."""
    if seconds < 60:
        return f"{seconds:.1f} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
