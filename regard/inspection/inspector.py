"""Inspection of a run from Python: of a translation run in all detail, of any other as its predictor offers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.config.settings import SearchConfig
from regard.errors import ConfigError
from regard.inference.decoding import Wanted
from regard.inspection.aligner import Aligner, find_aligner
from regard.inspection.build_document import Part, inspect_text
from regard.inspection.document import Inspection
from regard.inspection.run_history import describe_translation
from regard.inspection.run_inspector import PredictorInspector, RunInspector
from regard.runs.run_folder import RunFolder
from regard.tasks.load import load
from regard.tasks.translation.config import TranslationConfig, translation_config
from regard.tasks.translation.translator import Translator

__all__ = ["Inspector", "inspect", "run_inspector"]


class Inspector(RunInspector[Translator]):
    """A translation run whose checkpoints are inspected, one text at a time."""

    def details(self) -> dict[str, Any]:
        return describe_translation(self.run, name=self.name, checkpoint=self.checkpoint)

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
                self._predictor(checkpoint), text,
                settings=settings, force=force, candidate=candidate, include=include, aligner=self._aligner,
                model=model, sentence=sentence,
            )  # fmt: skip

    @cached_property
    def _aligner(self) -> Aligner | None:
        return find_aligner(self.run, self._predictor(None), checkpoint=self._given)


def run_inspector(
    run: RunFolder, *, name: str, open: Callable[[str | None], Any], checkpoint: str | None = None
) -> RunInspector[Any]:
    """The inspector of a run: one that knows translation, or one that shows what its predictor offers."""
    kind: type[RunInspector[Any]] = Inspector if isinstance(run.config, TranslationConfig) else PredictorInspector
    return kind(run, name=name, open=open, checkpoint=checkpoint)


def inspect(
    path: str | Path,
    text: str,
    *,
    checkpoint: str | None = None,
    device: str | None = None,
    engine: Wanted | None = None,
    include: Collection[Part] | None = None,
    sentence: int | None = None,
) -> Any:
    """Inspect a run's model on one input: ``regard.inspect("runs/m30k", "A dog runs.").show()``.

    Returns an Inspection of a translation run, and a PageDocument of any other. Raises ConfigError as ``inspect_text``
    does, for a task that shows nothing, and for options that the task does not have.

    Args:
        path: the run folder.
        text: one input as a line; for translation one or more sentences, all of which the document lists.
        checkpoint: ``average``, ``best``, ``last`` or a step; the run's own choice unless given.
        device: where to compute; a GPU if there is one unless given.
        engine: how to decode (see Translator).
        include: costly parts of the document of a translation; all unless given.
        sentence: index of the sentence to inspect, 0 the first.
    """
    run = RunFolder.open(Path(path))
    options: dict[str, Any] = {} if engine is None else {"engine": engine}

    def open(which: str | None) -> Any:
        return load(path, checkpoint=which, device=device, **options)

    inspector = run_inspector(run, name=run.path.resolve().name, open=open)
    if isinstance(inspector, Inspector):
        parts: Collection[Part] = ("ablation", "beam", "vectors") if include is None else include
        return inspector.inspect(text, checkpoint=checkpoint, include=parts, sentence=sentence or 0)
    given = {"include": include, "sentence": sentence, "engine": engine}
    if wrong := [name for name, value in given.items() if value is not None]:
        raise ConfigError(
            f"{', '.join(wrong)} is for translation", where=str(path), why=f"this run is of {run.task.name}"
        )
    return inspector.inspect(text, checkpoint=checkpoint)
