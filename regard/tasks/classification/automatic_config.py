"""A classifier's config for a file nobody wrote a recipe for, each choice with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.reading import read_lines
from regard.errors import RegardError
from regard.runs.config import Proposal

__all__ = ["choose"]

LOOKED_AT = 20_000  # lines
SHORT = 20  # letters: a text of fewer may be one word
CLASSES, USES = 20, 10  # a column is a label's if it has no more different values, each so often on average
FEW = 19_999  # texts: of so many, or fewer, words are learned one by one
BATCH, PASSES, FEWEST_STEPS = 2048, 4.1, 100
OPTIMIZER = ("optimizer", "learning_rate", "warmup", "weight_decay")  # of train: who gives the first chooses the others
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
    counts, source = found.labels, str(files[0])
    parts: dict[str, Any] = {"train": [{"source": source}], "valid": [{"source": str(file)} for file in valid]}
    told = "validates on the text given"
    if not valid:
        parts = {name: [{"source": source, "share": share}] for name, share in _SHARES.items()}
        told = "no validation text given: a tenth of the examples is held out, by a hash of their text"
    chosen = _of_letters(given) if not found.spaced else _of_words(found, given)
    settings: dict[str, Any] = {"batch_tokens": BATCH, "clip_norm": 1.0} | chosen.train
    if "optimizer" in given:
        settings = {key: value for key, value in settings.items() if key not in OPTIMIZER}
    reasons = [
        f"the second column has {len(counts)} different values, {', '.join(sorted(counts)[:5])}"
        f"{' …' if len(counts) > 5 else ''}: a classifier (task.kind = classification); a config with task.kind = "
        "translation would learn to write them",
        told,
        *chosen.reasons,
    ]
    data = parts | chosen.data
    config = {"task": {"kind": "classification"}, "data": data, "model": chosen.model, "train": settings}
    return Proposal(config, reasons)


class _Chosen(NamedTuple):
    """Tables of a config, and what is said of them."""

    data: dict[str, Any]
    model: dict[str, Any]
    train: dict[str, Any]
    reasons: list[str]


def _of_words(found: _Found, given: Mapping[str, Any]) -> _Chosen:
    """Few texts: what words and their ends say, weighed by attention. Many: a Transformer."""
    ended = set(ENDS) & given.keys()
    if found.labels.total() > FEW:
        train = {"optimizer": "adamw", "learning_rate": 1e-3, "warmup": 100}
        train |= {} if ended else {"epochs": 5, "early_stopping": 4}
        return _Chosen({"tokenizer": {"kind": "word"}}, {"preset": "small", "pooling": "attention"}, train, [])
    model = {
        "encoder": {"kind": "convolutional", "blocks": [[128, 1, 1]], "position": "none"}, "width": 128, "dropout": 0.5,
        "pooling": "attention", "affixes": 20_000,
    }  # fmt: skip
    steps = max(round(PASSES * found.pieces / BATCH), FEWEST_STEPS)
    train = {"optimizer": "adamw", "learning_rate": 4e-3, "warmup": 50, "weight_decay": 0.1}
    if not ended:
        every = steps // 5
        train |= {"steps": steps, "schedule": "linear", "validate_every": every, "save_every": every, "average": 3}
    why = "few texts: words with their beginnings and ends, each by itself, weighed by attention; a third is hidden"
    return _Chosen({"tokenizer": {"kind": "word"}, "hidden_tokens": 0.3}, model, train, [why])


def _of_letters(given: Mapping[str, Any]) -> _Chosen:
    model = {"encoder": {"kind": "convolutional", "blocks": [[64, 7, 3]]}, "width": 64, "dropout": 0.3}
    train = {"optimizer": "adamw", "learning_rate": 1e-3, "warmup": 100}
    if not set(ENDS) & given.keys():
        train |= {"epochs": 40, "early_stopping": 10}  # letters say less than words do
    why = "texts have no spaces: letter by letter, by convolutions, which find short motifs"
    return _Chosen({"tokenizer": {"kind": "character"}}, model | {"pooling": "attention"}, train, [why])


_SHARES = {"train": [0.0, 0.9], "valid": [0.9, 1.0]}


class _Found(NamedTuple):
    """Counts of the labels in the lines looked at and of their pieces, and whether texts have words."""

    labels: Counter[str]
    pieces: int
    spaced: bool


def _labels(path: Path) -> _Found | None:
    """See ``_Found``; None where the second column is no label."""
    counts: Counter[str] = Counter()
    spaced = pieces = 0
    try:
        for line in islice(read_lines(path), LOOKED_AT):
            text, tab, label = line.partition("\t")
            if not tab or not label or any(map(str.isspace, label)):
                return None
            counts[label] += 1
            pieces += len(text.split()) + 2
            spaced += " " in text.strip() or len(text) < SHORT
            if len(counts) > CLASSES:
                return None
    except RegardError:  # whoever reads it next says so
        return None
    if len(counts) < 2 or counts.total() < USES * len(counts):
        return None
    return _Found(counts, pieces, spaced > counts.total() / 2)
