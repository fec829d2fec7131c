"""The model of a study as a run, so that it can be translated with, served, and looked into."""

from __future__ import annotations

from pathlib import Path

from regard.data.corpora import prepare
from regard.runs import checkpoint
from regard.runs.config import load_config
from regard.runs.plan import Plan
from regard.runs.run_folder import RunFolder
from regard.studies.study import SavedModel
from regard.tasks.translation.codecs import Codecs, save_codecs

__all__ = ["keep_model"]

LONGEST = 256


def keep_model(kept: SavedModel, path: Path, *, name: str) -> None:
    """A run folder at ``path``, which must not be there yet: with what it learned."""
    model = kept.config.model_dump(mode="json", exclude_none=True)
    data = {"train": [], "joint": True, "tokenizer": {"kind": "word"}, "max_length": LONGEST}
    config = load_config({"name": name, "model": model, "data": data, "search": {"beam": 1}})
    run = RunFolder.create(path, config)
    save_codecs(run, Codecs(kept.tokenizer, kept.tokenizer))
    types = len(kept.tokenizer)
    run.write_plan(
        Plan(
            precision="float32", steps=None, threads=1, seconds_per_update={},
            spec={"source_types": types, "target_types": types},
        )
    )  # fmt: skip
    checkpoint.save(run.checkpoints, 0, {"model": dict(kept.model.named_parameters())}, {}, keep=1)
    numbered = ((line, source, target) for line, (source, target) in enumerate(kept.pairs, start=1))
    prepare(numbered, kept.tokenizer, kept.tokenizer, run.data / "train-0", max_length=LONGEST, name=name)
