"""The model of a study as a run, so that it can be translated with, served, and looked into."""

from __future__ import annotations

from pathlib import Path

from regard.data.corpora import prepare
from regard.runs.config import load_config
from regard.studies.study import SavedModel
from regard.tasks.translation.config import translation_config
from regard.tasks.translation.write_run import plan_without_training, write_run

__all__ = ["keep_model"]

LONGEST = 256


def keep_model(kept: SavedModel, path: Path, *, name: str) -> None:
    """A run folder at ``path``, which must not be there yet: with what it learned."""
    model = kept.config.model_dump(mode="json", exclude_none=True)
    data = {"train": [], "joint": True, "tokenizer": {"kind": "word"}, "max_length": LONGEST}
    config = load_config({"name": name, "model": model, "data": data, "search": {"beam": 1}})
    weights, plan = (
        dict(kept.model.named_parameters()),
        plan_without_training(kept.tokenizer, kept.tokenizer, threads=1),
    )
    run = write_run(path, translation_config(config), kept.tokenizer, kept.tokenizer, weights, plan=plan)
    numbered = ((line, source, target) for line, (source, target) in enumerate(kept.pairs, start=1))
    prepare(numbered, kept.tokenizer, kept.tokenizer, run.data / "train-0", max_length=LONGEST, name=name)
