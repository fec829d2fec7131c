"""Inspection of a run: its checkpoints as translators, opened on first use."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.config.settings import SearchConfig
from regard.inspection.aligner import Aligner, find_aligner
from regard.inspection.build_document import Part, inspect_text
from regard.inspection.document import Inspection
from regard.inspection.run_history import chosen_checkpoint, describe_run
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.config import translation_config
from regard.tasks.translation.translator import Engine, Translator, load

__all__ = ["Inspector", "inspect"]

KEPT = 3  # most checkpoints in memory


class Inspector:
    """A run whose checkpoints are inspected, one text at a time.

    ``open`` makes the translator of a checkpoint; for None it makes that of ``checkpoint``, or else of the run's own
    choice.
    """

    def __init__(
        self, run: RunFolder, *, name: str, open: Callable[[str | None], Translator], checkpoint: str | None = None
    ) -> None:
        self.run, self.name, self._open, self._given = run, name, open, checkpoint
        self._translators: OrderedDict[str | None, Translator] = OrderedDict()
        self._lock = threading.Lock()

    def details(self) -> dict[str, Any]:
        """Model, data, checkpoints and training curves of the run, as JSON."""
        return describe_run(self.run, name=self.name, checkpoint=self.checkpoint)

    @cached_property
    def checkpoint(self) -> str:
        """The name of the checkpoint that is inspected unless another is named."""
        return chosen_checkpoint(self.run, self._given)

    @property
    def aligner(self) -> Aligner | None:
        """The attention of the default checkpoint that aligns best; measured once, in some seconds."""
        if "_aligner" not in self.__dict__:  # once it is known, no lock is needed
            with self._lock:
                return self._aligner
        return self._aligner

    def inspect(
        self,
        text: str,
        *,
        checkpoint: str | None = None,
        settings: SearchConfig | None = None,
        force: Sequence[int] = (),
        candidate: int = 0,
        include: Collection[Part] = (),
        sentence: int = 0,
    ) -> Inspection:
        """Inspect one sentence of ``text`` (see ``inspect_text``) with ``checkpoint``, the default one unless given."""
        with self._lock:  # one at a time: it takes memory
            data = translation_config(self.run).data
            model = {
                "name": self.name,
                "checkpoint": checkpoint or self.checkpoint,
                "source_language": data.source_language,
                "target_language": data.target_language,
            }
            return inspect_text(
                self._translator(checkpoint), text,
                settings=settings, force=force, candidate=candidate, include=include, aligner=self._aligner,
                model=model, sentence=sentence,
            )  # fmt: skip

    @cached_property
    def _aligner(self) -> Aligner | None:
        return find_aligner(self.run, self._translator(None), checkpoint=self._given)

    def _translator(self, checkpoint: str | None) -> Translator:
        checkpoint = None if checkpoint == self.checkpoint else checkpoint  # the default is perhaps open already
        if checkpoint not in self._translators:
            self._translators[checkpoint] = self._open(checkpoint)
            if len(self._translators) > KEPT:
                self._translators.popitem(last=False)
        self._translators.move_to_end(checkpoint)
        return self._translators[checkpoint]


def inspect(
    path: str | Path,
    text: str,
    *,
    checkpoint: str | None = None,
    device: str | None = None,
    engine: Engine | None = None,
    include: Collection[Part] = ("ablation", "beam", "vectors"),
    sentence: int = 0,
) -> Inspection:
    """Inspect a run's model on one sentence: ``regard.inspect("runs/m30k", "A dog runs.").show()``.

    Raises ConfigError as ``inspect_text`` does.

    Args:
        path: the run folder.
        text: one or more sentences; the document lists all.
        checkpoint: ``average``, ``best``, ``last`` or a step; the run's own choice unless given.
        device: where to compute; a GPU if there is one unless given.
        engine: how to decode (see Translator).
        include: costly parts of the document.
        sentence: index of the sentence to inspect, 0 the first.
    """
    run = RunFolder.open(Path(path))

    def open(which: str | None) -> Translator:
        return load(path, checkpoint=which, device=device, engine=engine)

    inspector = Inspector(run, name=run.path.resolve().name, open=open)
    return inspector.inspect(text, checkpoint=checkpoint, include=include, sentence=sentence)
