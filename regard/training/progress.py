"""The state and the outcome of a training, as reporters and checkpoints see them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

from pydantic import TypeAdapter

RENAMED = {"sound": "last_good"}  # in checkpoints saved before -> now


@dataclass
class TrainingProgress:
    """The state of a training: everything beside tensors that a checkpoint must know. Plain numbers only."""

    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of this epoch done
    validated: int = 0  # the last step that was validated
    saved: int = 0  # the last step that was saved
    last_good: int = 0  # the last step saved by plan, not on an interruption, with a finite loss: where rollback leads
    best_step: int = 0
    best_value: float | None = None
    without_better: int = 0  # validations since the best one, or as ``train.stop_by`` counts
    least_loss: float | None = None  # of all validations, and the best value of the metric that decides: for "either"
    peak: float | None = None
    recent: list[float] = field(default_factory=list)  # losses of the last validations: for "mean"
    nonfinite: int = 0  # updates in a row without a finite loss
    rolled_back: int = 0  # the step at which weights were rolled back, until a later checkpoint is good
    metrics_size: int = 0  # bytes of metrics.jsonl
    seconds: float = 0.0  # of training, over all sittings


class Validation(NamedTuple):
    """``loss``: the mean over the validation data, unsmoothed; ``metrics``: of decoded output, where asked for."""

    loss: float
    metrics: dict[str, float]


class Outcome(NamedTuple):
    """The end of a sitting. ``reason``: "steps", "epochs", "early stopping" or "interrupted"."""

    progress: TrainingProgress
    reason: str


class Reporter(Protocol):
    """Told how training goes; commands print it, nothing below them does."""

    def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None: ...
    def validated(self, progress: TrainingProgress, validation: Validation, best: bool) -> None: ...
    def said(self, message: str) -> None: ...


class Quiet:
    """A reporter that prints nothing."""

    def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None: ...
    def validated(self, progress: TrainingProgress, validation: Validation, best: bool) -> None: ...
    def said(self, message: str) -> None: ...


def saved_progress(state: dict[str, Any]) -> TrainingProgress:
    """The progress in a checkpoint's state. TypeError for other names, ValueError for what is no plain number."""
    named = {RENAMED.get(name, name): value for name, value in state.items()}
    progress = TypeAdapter(TrainingProgress).validate_python(asdict(TrainingProgress(**named)))
    if not all(0 <= each < 10**15 for each in asdict(progress).values() if isinstance(each, int)):
        raise ValueError("a number in it is out of range")
    return progress
