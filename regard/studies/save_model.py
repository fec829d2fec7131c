"""Run folders with the model of a study, for translation, serving and inspection."""

from __future__ import annotations

from pathlib import Path

from regard.data.preparation import prepare
from regard.runs.config import load_config
from regard.studies.study import SavedModel
from regard.tasks.translation.config import translation_config
from regard.tasks.translation.write_run import plan_without_training, write_run

LONGEST = 256


def save_model(saved: SavedModel, path: Path, *, name: str) -> None:
    """Write a new run folder at ``path`` with the model and its training pairs; the folder must not exist."""
    model = saved.config.model_dump(mode="json", exclude_none=True)
    data = {"train": [], "joint": True, "tokenizer": {"kind": "word"}, "max_length": LONGEST}
    config = load_config({"name": name, "model": model, "data": data, "search": {"beam": 1}})
    weights, plan = (
        dict(saved.model.named_parameters()),
        plan_without_training(saved.tokenizer, saved.tokenizer, threads=1),
    )
    run = write_run(path, translation_config(config), saved.tokenizer, saved.tokenizer, weights, plan=plan)
    numbered_pairs = ((line, source, target) for line, (source, target) in enumerate(saved.pairs, start=1))
    prepare(numbered_pairs, saved.tokenizer, saved.tokenizer, run.data / "train-0", max_length=LONGEST, name=name)
