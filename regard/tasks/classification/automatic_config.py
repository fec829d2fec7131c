"""A classifier's config for a file nobody wrote a recipe for, each choice with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data.reading import read_lines
from regard.errors import RegardError
from regard.runs.config import Proposal

__all__ = ["choose"]

LOOKED_AT = 20_000  # lines
SHORT = 20  # letters: a text of fewer may be one word
CLASSES, USES = 20, 10  # a column is a label's if it has no more different values, each so often on average
ENDS = ("steps", "epochs", "minutes", "tokens", "early_stopping")  # of train: one that is given leaves no other chosen


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """A classifier where the second of two columns is a label; None for any other files."""
    if len(files) != 1 or not files[0].name.removesuffix(".gz").endswith(".tsv"):
        return None
    if not files[0].is_file():  # a pipe can be read once, by nobody who only looks
        return None
    found = _labels(files[0])
    if found is None:
        return None
    counts, spaced = found
    total, source = counts.total(), str(files[0])
    small = total <= 20_000
    parts: dict[str, Any] = {"train": [{"source": source}], "valid": [{"source": str(file)} for file in valid]}
    told = "validates on the text given"
    if not valid:
        parts = {name: [{"source": source, "share": share}] for name, share in _SHARES.items()}
        told = "no validation text given: a tenth of the examples is held out, by a hash of their text"
    settings: dict[str, Any] = {"batch_tokens": 2048, "clip_norm": 1.0}
    if "optimizer" not in given:
        settings |= {"optimizer": "adamw", "learning_rate": 1e-3, "warmup": 100}
    if not set(ENDS) & given.keys():
        settings |= {"epochs": 10 if small else 5, "early_stopping": 4}
        if not spaced:
            settings |= {"epochs": 40, "early_stopping": 10}  # letters say less than words do
    reasons = [
        f"the second column has {len(counts)} different values, {', '.join(sorted(counts)[:5])}"
        f"{' …' if len(counts) > 5 else ''}: a classifier (task.kind = classification); a config with task.kind = "
        "translation would learn to write them",
        told,
    ]
    model: dict[str, Any] = {"preset": "tiny" if small else "small", "pooling": "attention"}
    if not spaced:
        reasons.append("texts have no spaces: letter by letter, by convolutions, which find short motifs")
        model = {"encoder": {"kind": "convolutional", "blocks": [[64, 7, 3]]}, "width": 64, "dropout": 0.3}
        model |= {"pooling": "attention"}
    config = {
        "task": {"kind": "classification"},
        "data": {**parts, "tokenizer": {"kind": "word" if spaced else "character"}},
        "model": model,
        "train": settings,
    }
    return Proposal(config, reasons)


_SHARES = {"train": [0.0, 0.9], "valid": [0.9, 1.0]}


def _labels(path: Path) -> tuple[Counter[str], bool] | None:
    """Count each label in the lines looked at, and whether texts have words; None where the second column is none."""
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
    return (counts, spaced > counts.total() / 2) if len(counts) > 1 and counts.total() >= USES * len(counts) else None
