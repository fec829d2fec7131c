"""A classifier's config for a file nobody wrote a recipe for, each choice with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

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

__all__ = ["choose"]

FEW = 19_999  # texts: of so many, or fewer, words are learned one by one
BATCH, PASSES, FEWEST_STEPS = 2048, 4.1, 100
OPTIMIZER = ("optimizer", "learning_rate", "warmup", "weight_decay")  # of train: who gives the first chooses the others
ENDS = ("steps", "epochs", "minutes", "tokens", "early_stopping")  # of train: one that is given leaves no other chosen


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """A classifier where names of columns tell texts and labels, or the second of two is a label; else None."""
    if len(files) != 1 or not files[0].is_file():  # a pipe can be read once, by nobody who only looks
        return None
    found = labelled_columns(files[0], given.get("data", {}))
    if found is None and has_ending(files[0], (".tsv",)):
        found = _second_column(files[0])
    if found is None:
        return None
    source = str(files[0])
    parts: dict[str, Any] = {"train": [{"source": source}], "valid": [{"source": str(file)} for file in valid]}
    told = "validates on the text given"
    if not valid:
        parts = {name: [{"source": source, "share": share}] for name, share in _SHARES.items()}
        told = "no validation text given: a tenth of the examples is held out, by a hash of their text"
    chosen = _choose_model(found, given)
    settings: dict[str, Any] = {"batch_tokens": BATCH, "clip_norm": 1.0} | chosen.train
    if "optimizer" in given:
        settings = {key: value for key, value in settings.items() if key not in OPTIMIZER}
    instead = "; a config with task.kind = translation would learn to write them"  # where no name said what it is
    reasons = [
        f"{found.told}: a classifier (task.kind = classification){'' if found.data else instead}",
        told,
        *chosen.reasons,
    ]
    config = {
        "task": {"kind": "classification"},
        "data": {**parts, **found.data, **chosen.data},
        "model": chosen.model,
        "train": settings,
    }
    return Proposal(config, reasons)


class _Chosen(NamedTuple):
    """Tables of a config, and what is said of them."""

    data: dict[str, Any]
    model: dict[str, Any]
    train: dict[str, Any]
    reasons: list[str]


def _choose_model(found: LabelColumns, given: Mapping[str, Any]) -> _Chosen:
    if not found.spaced:
        chosen = _of_letters(given)
    elif found.examples > FEW or _paired(found):
        chosen = _of_many_words(found, given)
    else:
        chosen = _of_few_words(found, given)
    if _paired(found):
        chosen.reasons.append("each text of a pair is read by itself, and both are compared: model.pairs = apart")
        return chosen._replace(model=chosen.model | {"pairs": "apart"})
    return chosen


def _paired(found: LabelColumns) -> bool:
    return len(found.data.get("text", ())) == 2


def _of_many_words(found: LabelColumns, given: Mapping[str, Any]) -> _Chosen:
    """A Transformer, which also sees how words stand together."""
    train: dict[str, Any] = {"optimizer": "adamw", "learning_rate": 1e-3, "warmup": 100}
    small = found.examples <= FEW
    if not set(ENDS) & given.keys():
        train |= {"epochs": 10 if small else 5, "early_stopping": 4}
    model = {"preset": "tiny" if small else "small", "pooling": "attention"}
    return _Chosen({"tokenizer": {"kind": "word"}}, model, train, [])


def _of_few_words(found: LabelColumns, given: Mapping[str, Any]) -> _Chosen:
    """Words and their ends by themselves, weighed by attention."""
    model = {
        "encoder": {"kind": "convolutional", "blocks": [[128, 1, 1]], "position": "none"}, "width": 128, "dropout": 0.5,
        "pooling": "attention", "affixes": 20_000,
    }  # fmt: skip
    steps = max(round(PASSES * found.pieces / BATCH), FEWEST_STEPS)
    train: dict[str, Any] = {"optimizer": "adamw", "learning_rate": 4e-3, "warmup": 50, "weight_decay": 0.1}
    if not set(ENDS) & given.keys():
        every = steps // 5
        train |= {"steps": steps, "schedule": "linear", "validate_every": every, "save_every": every, "average": 3}
    why = "few texts: words with their beginnings and ends, each by itself, weighed by attention; a third is hidden"
    return _Chosen({"tokenizer": {"kind": "word"}, "hidden_tokens": 0.3}, model, train, [why])


def _of_letters(given: Mapping[str, Any]) -> _Chosen:
    model = {"encoder": {"kind": "convolutional", "blocks": [[64, 7, 3]]}, "width": 64, "dropout": 0.3}
    train: dict[str, Any] = {"optimizer": "adamw", "learning_rate": 1e-3, "warmup": 100}
    if not set(ENDS) & given.keys():
        train |= {"epochs": 40, "early_stopping": 10}  # letters say less than words do
    why = "texts have no spaces: letter by letter, by convolutions, which find short motifs"
    return _Chosen({"tokenizer": {"kind": "character"}}, model | {"pooling": "attention"}, train, [why])


_SHARES = {"train": [0.0, 0.9], "valid": [0.9, 1.0]}


def _second_column(path: Path) -> LabelColumns | None:
    """The second column of two, with its labels counted in the lines looked at; None where it has none."""
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
    told = f"the second column has {different_values(counts)}"
    return LabelColumns({}, counts.total(), pieces, spaced > counts.total() / 2, told)
