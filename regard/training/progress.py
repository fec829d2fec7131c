"""The state and the outcome of a training, for reporters and checkpoints; rules for the best validation so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pydantic import TypeAdapter

from regard.config.settings import TrainConfig
from regard.runs.run_config import RunConfig

INTERRUPTED, STOPPED, FAILED = "interrupted", "stopped by a reporter", "failed"  # ends before the planned one
RENAMED = {"sound": "last_good"}  # earlier name in checkpoints → current name
Better = Callable[[float, float | None], bool]  # value of ``train.best_by``, best one so far → strictly better


@dataclass
class TrainingProgress:
    """The state of a training that a checkpoint saves in addition to tensors. Plain numbers only.

    Attributes:
        step: completed updates.
        epoch: completed epochs.
        batch: completed batches of this epoch.
        validated: the last step that was validated.
        saved: the last step that was saved.
        last_good: last regularly saved step with a finite loss; the target of rollbacks.
        best_step: the step of the best validation.
        best_value: the value of ``train.best_by`` at that step.
        without_better: validations since the best one, as counted by ``train.stop_by``.
        least_loss: the smallest validation loss, for ``train.stop_by = "either"``.
        peak: best value of the metric of ``train.best_by``, for "either".
        recent: losses of the last validations, for "mean".
        nonfinite: consecutive updates without a finite loss.
        rolled_back: step of the last rollback; 0 after a later good checkpoint.
        metrics_size: bytes of ``metrics.jsonl``.
        seconds: training time, over all resumed sessions.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    validated: int = 0
    saved: int = 0
    last_good: int = 0
    best_step: int = 0
    best_value: float | None = None
    without_better: int = 0
    least_loss: float | None = None
    peak: float | None = None
    recent: list[float] = field(default_factory=list)
    nonfinite: int = 0
    rolled_back: int = 0
    metrics_size: int = 0
    seconds: float = 0.0


class TrainingStart(NamedTuple):
    """The beginning of a training session.

    Attributes:
        folder: the run folder.
        config: the config of the run.
        parameters: the number of parameters of the network.
        step: completed updates; more than 0 for a resumed run.
    """

    folder: Path
    config: RunConfig
    parameters: int
    step: int


class Validation(NamedTuple):
    """The result of a validation.

    Attributes:
        loss: the mean over the validation data, without label smoothing.
        metrics: the other metrics, and those of decoded output if ``train.best_by`` is one of them.
    """

    loss: float
    metrics: dict[str, float]


class Outcome(NamedTuple):
    """The end of a training session.

    Attributes:
        progress: the state of the training.
        reason: "steps", "epochs", "early stopping", "interrupted", "stopped by a reporter", or "failed" if an exception
            ended it.
    """

    progress: TrainingProgress
    reason: str

    @property
    def is_complete(self) -> bool:
        """Return whether the training reached its end; otherwise it can be resumed."""
        return self.reason not in (INTERRUPTED, STOPPED, FAILED)


class Reporter(Protocol):
    """Receiver of the progress of a training. Only rank 0 reports.

    A session calls ``started`` once, then ``updated`` and ``validated``, and ``finished`` once. ``log`` may be called
    at any time. If ``updated`` or ``validated`` returns True, training saves a checkpoint and stops. The run can be
    resumed.
    """

    def started(self, start: TrainingStart) -> None:
        """Receive the beginning of a session."""

    def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> bool | None:
        """Receive an update; return True to stop.

        Args:
            progress: the state after the update. Do not change it.
            steps: the planned number of updates, if it is known.
            figures: ``loss`` (minimized), ``nll`` (without label smoothing), ``rate`` (learning rate), ``norm`` (of the
                gradient), ``tokens`` and ``seconds`` of this update.
        """

    def validated(self, progress: TrainingProgress, validation: Validation, best: bool) -> bool | None:
        """Receive a validation; return True to stop.

        Args:
            progress: the state of the training. Do not change it.
            validation: the loss and the metrics.
            best: whether this is the best validation so far.
        """

    def log(self, message: str) -> None:
        """Receive one line of text."""

    def finished(self, outcome: Outcome) -> None:
        """Receive the end of the session."""


class NullReporter:
    """A reporter that does nothing; the base class of reporters that need only some of the calls."""

    def started(self, start: TrainingStart) -> None: ...
    def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> bool | None: ...
    def validated(self, progress: TrainingProgress, validation: Validation, best: bool) -> bool | None: ...
    def log(self, message: str) -> None: ...
    def finished(self, outcome: Outcome) -> None: ...


def saved_progress(state: dict[str, Any]) -> TrainingProgress:
    """Return the progress in a checkpoint's state. TypeError for unknown names, ValueError for invalid values."""
    named = {RENAMED.get(name, name): value for name, value in state.items()}
    progress = TypeAdapter(TrainingProgress).validate_python(asdict(TrainingProgress(**named)))
    if not all(0 <= value < 10**15 for value in asdict(progress).values() if isinstance(value, int)):
        raise ValueError("a number of the progress is out of range")
    return progress


def is_best(
    settings: TrainConfig, progress: TrainingProgress, loss: float, value: float | None, better: Better
) -> bool:
    """Return whether this validation is the best, and update ``progress.without_better`` for ``train.early_stopping``.

    ``value``: that of ``train.best_by``; None if this validation did not measure it, which then does not count.

    Rules of ``train.stop_by``:

    - "best": counts consecutive validations without a new best.
    - "as_good": counts those without a value as good as the best one; an equal value becomes the best (as the authors
      of GAT for Citeseer: PetarV-/GAT, issue 14).
    - "either": counts those with neither a loss nor a value as good as the best; the best one must be as good in both
      (code of Veličković et al. 2018).
    - "mean": stops when the loss exceeds the mean of the last ``early_stopping`` losses (code of Kipf & Welling 2017).
    """
    if value is None:
        return False
    if settings.stop_by == "either":
        return _either(progress, loss, value, better)
    best = better(value, progress.best_value)
    if settings.stop_by == "as_good":
        best = best or value == progress.best_value
    if settings.stop_by in ("best", "as_good"):
        progress.without_better = 0 if best else progress.without_better + 1
        return best
    number = settings.early_stopping or 0
    if number and math.isfinite(loss):
        before = progress.recent[-number:]
        risen = len(before) == number and loss > sum(before) / number
        progress.without_better = number if risen else 0
        progress.recent = [*before, loss][-number:]
    return best


def _either(progress: TrainingProgress, loss: float, value: float, better: Better) -> bool:
    loss_is_least = math.isfinite(loss) and (progress.least_loss is None or loss <= progress.least_loss)
    value_is_peak = math.isfinite(value) and not (progress.peak is not None and better(progress.peak, value))
    progress.without_better = 0 if loss_is_least or value_is_peak else progress.without_better + 1
    progress.least_loss = loss if loss_is_least else progress.least_loss
    progress.peak = value if value_is_peak else progress.peak
    return loss_is_least and value_is_peak
