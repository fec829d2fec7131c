"""The state and the outcome of a training, for reporters and checkpoints; rules for the best validation so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

from pydantic import TypeAdapter

from regard.config.settings import TrainConfig

RENAMED = {"sound": "last_good"}  # earlier name in checkpoints → current name
Better = Callable[[float, float | None], bool]  # value of ``train.best_by``, best one so far → strictly better


@dataclass
class TrainingProgress:
    """The state of a training that a checkpoint saves in addition to tensors. Plain numbers only."""

    step: int = 0  # completed updates
    epoch: int = 0
    batch: int = 0  # completed batches of this epoch
    validated: int = 0  # the last step that was validated
    saved: int = 0  # the last step that was saved
    last_good: int = 0  # last regularly saved step with a finite loss; the target of rollbacks
    best_step: int = 0
    best_value: float | None = None
    without_better: int = 0  # validations since the best one, as counted by ``train.stop_by``
    least_loss: float | None = None  # of all validations; with ``peak``, for "either"
    peak: float | None = None  # best value of the metric of ``train.best_by``, for "either"
    recent: list[float] = field(default_factory=list)  # losses of the last validations, for "mean"
    nonfinite: int = 0  # consecutive updates without a finite loss
    rolled_back: int = 0  # step of the last rollback; 0 after a later good checkpoint
    metrics_size: int = 0  # bytes of metrics.jsonl
    seconds: float = 0.0  # training time, over all resumed sessions


class Validation(NamedTuple):
    """``loss``: the unsmoothed mean over the validation data; ``metrics``: those of decoded output, if requested."""

    loss: float
    metrics: dict[str, float]


class Outcome(NamedTuple):
    """The end of a training session. ``reason``: "steps", "epochs", "early stopping" or "interrupted"."""

    progress: TrainingProgress
    reason: str


class Reporter(Protocol):
    """Receiver of the progress of a training; only commands print it."""

    def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None: ...
    def validated(self, progress: TrainingProgress, validation: Validation, best: bool) -> None: ...
    def log(self, message: str) -> None: ...


class NullReporter:
    """A reporter that prints nothing."""

    def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None: ...
    def validated(self, progress: TrainingProgress, validation: Validation, best: bool) -> None: ...
    def log(self, message: str) -> None: ...


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
