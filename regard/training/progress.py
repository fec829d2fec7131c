"""The state and the outcome of a training, for reporters and checkpoints."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

from pydantic import TypeAdapter

RENAMED = {"sound": "last_good"}  # earlier name in checkpoints → current name


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
