"""A classifier's config for a file nobody wrote a recipe for, each choice with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from regard.config.settings import TRAINING_ENDS
from regard.data.file_names import has_ending
from regard.data.reading import read_lines
from regard.errors import RegardError
from regard.runs.config import Proposal
from regard.tasks.classification.label_columns import (
    CLASSES,
    LOOKED_AT,
    SHORT,
    USES,
    LabelColumns,
    different_values,
    labelled_columns,
)
from regard.tasks.held_out_parts import held_out_parts

__all__ = ["choose"]


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """A classifier where names of columns tell texts and labels, or the second of two is a label; else None."""
    if len(files) != 1 or not files[0].is_file():  # a pipe can be read once, by nobody who only looks
        return None
    found = labelled_columns(files[0], given.get("data", {}))
    if found is None and has_ending(files[0], (".tsv",)):
        found = _second_column(files[0])
    if found is None:
        return None
    total, spaced = found.examples, found.spaced
    small = total <= 20_000
    parts, told = held_out_parts(files[0], valid, examples="texts", hashed="what they say")
    settings: dict[str, Any] = {"batch_tokens": 2048, "clip_norm": 1.0}
    if "optimizer" not in given:
        settings |= {"optimizer": "adamw", "learning_rate": 1e-3, "warmup": 100}
    if not set(TRAINING_ENDS) & given.keys():
        settings |= {"epochs": 10 if small else 5, "early_stopping": 4}
        if not spaced:
            settings |= {"epochs": 40, "early_stopping": 10}  # letters say less than words do
    reasons = [
        f"{found.told}: a classifier (task.kind = classification); a config with task.kind = translation would learn "
        "to write them"
        if not found.data
        else f"{found.told}: a classifier (task.kind = classification)",
        told,
    ]
    model: dict[str, Any] = {"preset": "tiny" if small else "small", "pooling": "attention"}
    if not spaced:
        reasons.append("texts have no spaces: letter by letter, by convolutions, which find short motifs")
        model = {"encoder": {"kind": "convolutional", "blocks": [[64, 7, 3]]}, "width": 64, "dropout": 0.3}
        model |= {"pooling": "attention"}
    if len(found.data.get("text", ())) == 2:
        reasons.append("each text of a pair is read by itself, and both are compared: model.pairs = apart")
        model |= {"pairs": "apart"}
    config = {
        "task": {"kind": "classification"},
        "data": {**parts, **found.data, "tokenizer": {"kind": "word" if spaced else "character"}},
        "model": model,
        "train": settings,
    }
    return Proposal(config, reasons)


def _second_column(path: Path) -> LabelColumns | None:
    """The second column of two, with its labels counted in the lines looked at; None where it has none."""
    counts: Counter[str] = Counter()
    spaced = 0
    try:
        for line in islice(read_lines(path), LOOKED_AT):
            text, tab, label = line.partition("\t")
            if not tab or not label or any(map(str.isspace, label)):
                return None
            counts[label] += 1
            spaced += " " in text.strip() or len(text) < SHORT
            if len(counts) > CLASSES:
                return None
    except RegardError:  # whoever reads it next says so
        return None
    if len(counts) < 2 or counts.total() < USES * len(counts):
        return None
    told = f"the second column has {different_values(counts)}"
    return LabelColumns({}, counts.total(), spaced > counts.total() / 2, told)
