"""Inspection of a run of any task: its checkpoints as predictors, opened on first use, one input at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from regard.core.predictor_interface import PredictorInterface
from regard.errors import ConfigError
from regard.inference.decoding import RequestedEngine
from regard.inspection.aligner import Aligner, find_aligner
from regard.inspection.build_document import ALL_PARTS, Part, SearchOptions, inspect_text
from regard.inspection.document import Inspection
from regard.inspection.inspect_input import PARTS_OF_ALL_TASKS, inspect_input
from regard.inspection.run_history import checkpoints, chosen_checkpoint, describe_run
from regard.runs.run_folder import RunFolder
from regard.tasks.load import load

MAX_OPEN = 3  # checkpoints in memory


class Inspector:
    """A run whose checkpoints are inspected, one input at a time.

    Args:
        run: the run.
        name: the name of the model.
        open: creates the predictor of a checkpoint; for None, that of ``checkpoint`` or the default of the run.
        checkpoint: the default checkpoint.
    """

    def __init__(
        self, run: RunFolder, *, name: str, open: Callable[[str | None], Any], checkpoint: str | None = None
    ) -> None:
        self.run, self.name, self._open, self._given = run, name, open, checkpoint
        self._predictors: OrderedDict[str | None, Any] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def translates(self) -> bool:
        """Return whether the model translates: outputs are found by a search, sentence by sentence."""
        return "translate" in self.run.task.serves

    def is_baseline(self, checkpoint: str | None = None) -> bool:
        """Return whether a checkpoint (None: the default) is a baseline without a network; it cannot be inspected."""
        return self.run.is_baseline(checkpoint or self._given)

    def inspect(
        self,
        text: str,
        options: SearchOptions | None = None,
        *,
        checkpoint: str | None = None,
        influence: bool = False,
        include: Collection[Part] = (),
        settings: BaseModel | None = None,
    ) -> Inspection:
        """Inspect one input.

        Args:
            text: a line, as ``regard predict`` reads it; for a translation model, one or more sentences.
            options: search options of a translation model.
            checkpoint: None: the default one.
            influence: whether to compute the influence of each piece, in batches of up to 256 inputs.
            include: expensive parts of the document, in addition to those of ``options``.
            settings: settings of a request, for models without a search (``inspect_input``).

        Raises:
            ConfigError: if the predictor or the input cannot be inspected, or ``options`` are given for a model without
                a search.
        """
        if (options is not None or "beam" in include) and not self.translates:
            raise ConfigError(
                "this model has no search to inspect", why=f"the task of this run is {self.run.config.task.kind}"
            )
        if self.is_baseline(checkpoint):
            raise self.run.without_network(checkpoint or self._given)
        chosen = {*include, *(("influence",) if influence else ())}
        with self._lock:  # one at a time, because it takes memory
            predictor, model = self._predictor(checkpoint), self._model(checkpoint)
            if self.translates:
                options = options or SearchOptions()
                options = options._replace(include={*options.include, *chosen})
                aligner = None if self.is_baseline() else self._aligner
                return inspect_text(predictor, text, options, aligner=aligner, model=model)
            return inspect_input(predictor, text, model, chosen, settings)

    def details(self, interface: PredictorInterface | None = None) -> dict[str, Any]:
        """Return model, data, checkpoints and training curves of the run as JSON; see ``describe_run``."""
        return describe_run(self.run, name=self.name, checkpoint=self.checkpoint, interface=interface)

    def checkpoints(self) -> list[str]:
        """Names of the checkpoints that can be inspected."""
        return checkpoints(self.run)

    @cached_property
    def checkpoint(self) -> str:
        """The name of the default checkpoint."""
        return chosen_checkpoint(self.run, self._given)

    @property
    def aligner(self) -> Aligner | None:
        """The attention of the default checkpoint that aligns source and target words best, or None.

        It is measured once, which takes a few seconds.
        """
        if not self.translates or self.is_baseline():
            return None
        if "_aligner" not in self.__dict__:  # once it is known, no lock is needed
            with self._lock:
                return self._aligner
        return self._aligner

    @cached_property
    def _aligner(self) -> Aligner | None:
        return find_aligner(self.run, self._predictor(None), checkpoint=self._given)

    def _model(self, checkpoint: str | None) -> dict[str, str | None]:
        """Return the document's description of the model."""
        config = self.run.config
        model = {"name": self.name, "task": config.task.kind, "checkpoint": checkpoint or self.checkpoint}
        source, target = config.languages
        return model | ({"source_language": source, "target_language": target} if self.translates else {})

    @property
    def predictor(self) -> Any:
        """The predictor of the default checkpoint."""
        with self._lock:
            return self._predictor(None)

    def _predictor(self, checkpoint: str | None) -> Any:
        checkpoint = None if checkpoint == self.checkpoint else checkpoint  # the default may be open already
        if checkpoint not in self._predictors:
            self._predictors[checkpoint] = self._open(checkpoint)
            if len(self._predictors) > MAX_OPEN:
                self._predictors.popitem(last=False)
        self._predictors.move_to_end(checkpoint)
        return self._predictors[checkpoint]


def inspect(
    path: str | Path,
    text: str,
    *,
    checkpoint: str | None = None,
    device: str | None = None,
    engine: RequestedEngine | None = None,
    include: Collection[Part] | None = None,
    sentence: int | None = None,
    influence: bool = False,
) -> Inspection:
    """Inspect a run's model on one input: ``regard.inspect("runs/m30k", "A dog runs.").show()``.

    Args:
        path: the run folder.
        text: one input as a line; for translation, one or more sentences.
        checkpoint: ``average``, ``best``, ``last`` or a step; None: the default of the run.
        device: torch device; None: a GPU if available.
        engine: the decoding engine (see Translator).
        include: expensive parts of the document; None: all but the influence.
        sentence: index of the sentence to inspect, from 0.
        influence: whether to compute the influence of each piece by hiding it.

    Raises:
        ConfigError: if the input cannot be inspected, or an option does not apply to the task.
    """
    run = RunFolder.open(Path(path))
    opening: dict[str, Any] = {} if engine is None else {"engine": engine}

    def open(which: str | None) -> Any:
        return load(path, checkpoint=which, device=device, **opening)

    inspector = Inspector(run, name=run.path.resolve().name, open=open)
    if inspector.translates:
        options = SearchOptions(include=ALL_PARTS if include is None else include, sentence=sentence or 0)
        return inspector.inspect(text, options, checkpoint=checkpoint, influence=influence)
    options_of_translation = {"sentence": sentence, "engine": engine}
    if wrong := [name for name, value in options_of_translation.items() if value is not None]:
        raise ConfigError(
            f"{', '.join(wrong)} applies to translation only", where=str(path), why=f"the task is {run.task.name}"
        )
    parts = PARTS_OF_ALL_TASKS if include is None else include
    return inspector.inspect(text, checkpoint=checkpoint, influence=influence, include=parts)
