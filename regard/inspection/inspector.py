"""A run to be looked into: its checkpoints as translators, opened when asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.config.settings import SearchConfig
from regard.inspection.aligner import Aligner, aligner_of
from regard.inspection.build_document import Part, inspect_text
from regard.inspection.document import Inspection
from regard.inspection.run_history import chosen_checkpoint, details
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.config import translation_config
from regard.tasks.translation.translator import Engine, Translator, load

__all__ = ["Inspector", "inspect"]

KEPT = 3  # checkpoints in memory


class Inspector:
    """``open`` makes the translator of a checkpoint; None is ``checkpoint``, or else the one that the run chooses."""

    def __init__(
        self, run: RunFolder, *, name: str, open: Callable[[str | None], Translator], checkpoint: str | None = None
    ) -> None:
        self.run, self.name, self._open, self._given = run, name, open, checkpoint
        self._translators: OrderedDict[str | None, Translator] = OrderedDict()
        self._lock = threading.Lock()

    def details(self) -> dict[str, Any]:
        """What the run is made of, its checkpoints and its curves, as JSON has it."""
        return details(self.run, name=self.name, checkpoint=self.checkpoint)

    @cached_property
    def checkpoint(self) -> str:
        """What is looked into unless another is asked for."""
        return chosen_checkpoint(self.run, self._given)

    @property
    def aligner(self) -> Aligner | None:
        """Which attention of the model that translates aligns best; measured once, in some seconds."""
        if "_aligner" not in self.__dict__:  # once it is known nobody waits for who looks into a model
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
        """What this run's model does with ``text`` (``inspect_text``)."""
        with self._lock:  # one at a time: it is for people, and takes memory
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
        return aligner_of(self.run, self._translator(None), checkpoint=self._given)

    def _translator(self, checkpoint: str | None) -> Translator:
        checkpoint = None if checkpoint == self.checkpoint else checkpoint  # which is open already where it translates
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
    """What the model of a run folder does with ``text``: ``regard.inspect("runs/m30k", "A dog runs.").show()``.

    ``inspect_text`` says what there is and what is refused; ``include`` what costs more is all there. Of several
    sentences one is looked at, number ``sentence``, 0 the first; the document lists all.
    """
    run = RunFolder.open(Path(path))

    def open(which: str | None) -> Translator:
        return load(path, checkpoint=which, device=device, engine=engine)

    inspector = Inspector(run, name=run.path.resolve().name, open=open)
    return inspector.inspect(text, checkpoint=checkpoint, include=include, sentence=sentence)
