"""A tagger's config for a file nobody wrote a recipe for, each choice with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from regard.config.settings import TRAINING_ENDS
from regard.core.untrusted_files import parse_json
from regard.data.file_names import CONLL_U, JSON_LINES, has_ending
from regard.data.reading import read_lines
from regard.data.tables import column_names, is_table
from regard.errors import RegardError
from regard.runs.config import Proposal
from regard.tasks.held_out_parts import held_out_parts
from regard.tasks.tagging.tagged_text import tagged_columns

__all__ = ["choose"]

LOOKED_AT = 20_000  # lines


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """A tagger for a file of tagged sentences; None for any other files."""
    if len(files) != 1 or not files[0].is_file():  # a pipe can be read once, by nobody who only looks
        return None
    try:
        why = _kind(files[0])
    except (RegardError, ValueError):  # whoever reads it next says so
        return None
    if why is None:
        return None
    parts, told = held_out_parts(files[0], valid, examples="sentences", hashed="their tokens")
    settings: dict[str, Any] = {"batch_tokens": 1024, "clip_norm": 1.0}
    if "optimizer" not in given:
        settings |= {"optimizer": "adamw", "learning_rate": 2e-3, "warmup": 100}
    if not set(TRAINING_ENDS) & given.keys():
        settings |= {"epochs": 20, "early_stopping": 5}
    model = {
        "encoder": {"kind": "recurrent", "cell": "gru"}, "layers": 1, "width": 256, "dropout": 0.4, "affixes": 20_000,
    }  # fmt: skip
    config = {
        "task": {"kind": "tagging"},
        "data": {**parts, "tokenizer": {"kind": "word"}, "hidden_tokens": 0.1},
        "model": model,
        "train": settings,
    }
    reasons = [
        f"{why}: a tagger (task.kind = tagging)", told,
        "words with their beginnings, ends and shapes, read by a GRU in both directions",
    ]  # fmt: skip
    return Proposal(config, reasons)


def _kind(path: Path) -> str | None:
    """Why a file is one of tagged sentences; None where it is not."""
    if is_table(path):
        columns = tagged_columns(column_names(path))
        return None if columns is None else f"columns {columns[0]} and {columns[1]} hold words and their tags"
    if has_ending(path, CONLL_U):
        return "a .conllu has a word a line, with its tag"
    if has_ending(path, JSON_LINES):
        row = parse_json(next(iter(read_lines(path)), ""))
        lists = isinstance(row, dict) and all(isinstance(row.get(key), list) for key in ("tokens", "tags"))
        return "its lines have tokens and tags" if lists else None
    if has_ending(path, (".tsv",)):
        lines = list(islice(read_lines(path), LOOKED_AT))
        words = [line for line in lines if line.strip()]
        alike = words and all(line.count("\t") == words[0].count("\t") > 0 for line in words)
        return "it has a word a line, and blank lines between sentences" if alike and len(words) < len(lines) else None
    return None
