"""A run from its folder to its end: set-up, training, the model card; started anew or resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from regard.core import atomic_files
from regard.core.interrupt import Interrupts
from regard.errors import RegardError, StorageError
from regard.runs import checkpoint
from regard.runs.model_card import write_card
from regard.runs.run_folder import RunFolder
from regard.training.progress import Outcome, Reporter
from regard.training.setup import TrainingInputs, set_up
from regard.training.trainer import Trainer

__all__ = ["Display", "OpenDisplay", "train_new", "train_run"]


class Display(Reporter, Protocol):
    """A reporter that also shows preparation and the end of training."""

    def prepared(self, examples: int) -> None: ...
    def finished(self, outcome: Outcome) -> None: ...


OpenDisplay = Callable[[Path], AbstractContextManager[Display]]


def train_new(run: RunFolder, open_display: OpenDisplay) -> int:
    """Train a run whose folder was created a moment ago; remove the folder if the start leaves nothing to resume.

    Kept: a run with a checkpoint, and one with a plan that was interrupted or ran into a full disk. Any other error
    after the plan would come again, so that folder goes, too.
    """
    try:
        return train_run(run, open_display)
    except BaseException as error:
        resumable = _is_prepared(run) and (isinstance(error, StorageError) or not isinstance(error, RegardError))
        if not resumable and not checkpoint.list_steps(run.checkpoints):
            with suppress(StorageError):  # a machine that refuses does so again; the first failure is the one to tell
                atomic_files.remove_folder(run.path)
                if isinstance(error, StorageError):
                    error.why = f"training had not begun; {run.path} is removed"
        raise


def train_run(run: RunFolder, open_display: OpenDisplay) -> int:
    """Train or resume a run, reporting to a display. Returns the exit code: 0, 130 or 143."""
    with (
        _resumable(run),
        run.training(),
        Interrupts() as interrupts,
        open_display(run.path) as display,
    ):
        ready = set_up(run, say=display.said, progress=display.prepared)
        trainer = Trainer(
            run, ready.net, ready.data, steps=ready.steps, reporter=display, interrupted=interrupts.interrupted
        )
        interrupts.polite = True
        if trainer.resume():
            display.said(f"going on from step {trainer.progress.step:,}")
        outcome = trainer.fit()
        _write_card(run, ready, outcome)
        display.finished(outcome)
        if outcome.reason != "interrupted":
            display.said(f"next: regard {run.task.card.command.format(run=run.path)}")
    return interrupts.exit_code if outcome.reason == "interrupted" else 0


@contextmanager
def _resumable(run: RunFolder) -> Iterator[None]:
    """Add the command that resumes to a storage failure, where there is something to resume."""
    try:
        yield
    except StorageError as error:
        if _is_prepared(run) or checkpoint.list_steps(run.checkpoints):
            error.help = ", then ".join(filter(None, (error.help, f"regard train --resume {run.path}")))
        raise


def _is_prepared(run: RunFolder) -> bool:
    """Whether preparation is over: the plan is written last."""
    return (run.path / "plan.json").exists()


def _write_card(run: RunFolder, ready: TrainingInputs, outcome: Outcome) -> None:
    parameters = sum(parameter.numel() for parameter in ready.net.parameters())
    write_card(run, parameters=parameters, updates=outcome.progress.step, seconds=outcome.progress.seconds)
