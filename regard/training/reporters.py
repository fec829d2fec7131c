"""Reporters of a training: several as one, and those that a config names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from regard.training.display import NotebookDisplay, in_notebook
from regard.training.progress import NullReporter, Outcome, Reporter, TrainingProgress, TrainingStart, Validation
from regard.training.trackers import MLflowReporter, TensorBoardReporter, TrackioReporter, WandbReporter

LOG = logging.getLogger("regard.training")

# The names of `train.report`. A config may be received from others, so it cannot name a class outside of this table.
REPORTERS: dict[str, Callable[[], Reporter]] = {
    "mlflow": MLflowReporter,
    "tensorboard": TensorBoardReporter,
    "trackio": TrackioReporter,
    "wandb": WandbReporter,
}


class Reporters(NullReporter):
    """Several reporters as one.

    An exception of a reporter must not end a training: it is logged, and the reporter receives no further calls.
    """

    def __init__(self, reporters: Iterable[Reporter]) -> None:
        self.reporters = list(reporters)

    def started(self, start: TrainingStart) -> None:
        self._call("started", start)

    def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> bool:
        return self._call("updated", progress, steps, figures)

    def validated(self, progress: TrainingProgress, validation: Validation, best: bool) -> bool:
        return self._call("validated", progress, validation, best)

    def log(self, message: str) -> None:
        self._call("log", message)

    def finished(self, outcome: Outcome) -> None:
        self._call("finished", outcome)

    def _call(self, method: str, *arguments: object) -> bool:
        """Call all reporters; return whether one of them requests to stop."""
        stop, working = False, []
        for reporter in self.reporters:
            try:
                stop |= getattr(reporter, method)(*arguments) is True
            except Exception as error:  # noqa: BLE001 - a library or its server may fail in any way
                name = type(reporter).__name__
                LOG.warning("%s.%s failed and is no longer called: %s: %s", name, method, type(error).__name__, error)
            else:
                working.append(reporter)
        self.reporters = working
        return stop


def make_reporters(names: Iterable[str]) -> list[Reporter]:
    """Return the reporters of these names, each once. Raises ConfigError if a library is not installed."""
    return [REPORTERS[name]() for name in dict.fromkeys(names)]


def default_reporters() -> list[Reporter]:
    """Return the reporters of a training without any: a progress bar in a notebook."""
    return [NotebookDisplay()] if in_notebook() else []
