"""Inspection of a run of any task: its checkpoints as predictors, opened on first use."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from regard.core.observation import require_observation
from regard.core.predictor_interface import read_input
from regard.errors import ConfigError
from regard.inspection.document import PageDocument
from regard.inspection.observation_document import observation_document
from regard.inspection.run_history import checkpoints, chosen_checkpoint, describe_run
from regard.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from regard.inspection.aligner import Aligner

__all__ = ["PredictorInspector", "RunInspector"]

KEPT = 3  # most checkpoints in memory
Predictor = TypeVar("Predictor")


class RunInspector(ABC, Generic[Predictor]):
    """A run whose checkpoints are inspected, one input at a time.

    ``open`` makes the predictor of a checkpoint; for None it makes that of ``checkpoint``, or else of the run's own
    choice.
    """

    def __init__(
        self, run: RunFolder, *, name: str, open: Callable[[str | None], Predictor], checkpoint: str | None = None
    ) -> None:
        self.run, self.name, self._open, self._given = run, name, open, checkpoint
        self._predictors: OrderedDict[str | None, Predictor] = OrderedDict()
        self._lock = threading.Lock()

    @abstractmethod
    def inspect(self, text: str, *, checkpoint: str | None = None) -> PageDocument:
        """Inspect one input with ``checkpoint``, the default one unless given."""

    def details(self) -> dict[str, Any]:
        """Model, data, checkpoints and training curves of the run, as JSON."""
        return describe_run(self.run, name=self.name, checkpoint=self.checkpoint)

    def checkpoints(self) -> list[str]:
        """Names of the checkpoints that can be inspected."""
        return checkpoints(self.run)

    @cached_property
    def checkpoint(self) -> str:
        """The name of the checkpoint that is inspected unless another is named."""
        return chosen_checkpoint(self.run, self._given)

    @property
    def aligner(self) -> Aligner | None:
        """The attention that aligns the words of two languages; None of other tasks."""
        return None

    def _predictor(self, checkpoint: str | None) -> Predictor:
        checkpoint = None if checkpoint == self.checkpoint else checkpoint  # the default is perhaps open already
        if checkpoint not in self._predictors:
            self._predictors[checkpoint] = self._open(checkpoint)
            if len(self._predictors) > KEPT:
                self._predictors.popitem(last=False)
        self._predictors.move_to_end(checkpoint)
        return self._predictors[checkpoint]


class PredictorInspector(RunInspector[Any]):
    """A run of any task, shown through its predictor's ``inspect``."""

    def inspect(self, text: str, *, checkpoint: str | None = None) -> PageDocument:
        """Observe one input, a line as ``regard predict`` reads it. ConfigError where the predictor shows nothing."""
        with self._lock:
            predictor, task = self._predictor(checkpoint), self.run.config.task.kind
            if not hasattr(predictor, "inspect"):
                raise ConfigError(
                    f"the task {task} shows nothing", why="its predictor has no method inspect(input) -> Observation",
                    help="regard.core.observation says what it returns; the page draws all of it",
                )  # fmt: skip
            input = read_input(predictor, text) if hasattr(predictor, "read") else text
            found = require_observation(predictor.inspect(input))
            model = {"name": self.name, "task": task, "checkpoint": checkpoint or self.checkpoint}
            attention = {place: each.weights for place, each in found.attention.items()}
            return PageDocument(observation_document(found, model), attention)
