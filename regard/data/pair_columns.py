"""The two columns of a table, or keys of JSON lines, that are the sides of a pair: by names that are well known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from regard.data.tables import column_names, first_of, is_table
from regard.errors import RegardError

__all__ = ["PAIR", "names_sides", "pair_columns", "told_sides"]

PAIR = ("source", "target")
# The first of which both are there counts.
SIDES = (
    PAIR, ("source", "translation"), ("src", "tgt"), ("src", "trg"), ("source_text", "target_text"),
    ("document", "summary"), ("article", "summary"), ("dialogue", "summary"), ("text", "summary"),
    ("article", "highlights"), ("body", "subject"), ("question", "answer"), ("input", "output"),
    ("word", "pronunciation"), ("grapheme", "phoneme"),
)  # fmt: skip
LANGUAGE = re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,8})?")


def pair_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """The columns of a source and its target; None where the names do not tell.

    Two columns that are all of a table, each named by the code of a language, are a pair in their order.
    """
    for source, target in SIDES:
        found = first_of(names, [source]), first_of(names, [target])
        if found[0] is not None and found[1] is not None:
            return found[0], found[1]
    if len(names) == 2 and all(LANGUAGE.fullmatch(name) for name in names) and names[0] != names[1]:
        return names[0], names[1]
    return None


def told_sides(path: Path) -> tuple[str, str] | None:
    """The sides by the columns of a table; None for another file, or where the names do not tell."""
    return pair_columns(column_names(path)) if is_table(path) else None


def names_sides(path: Path) -> bool:
    """Return whether a file is a table whose columns tell both sides; one that cannot be read is none."""
    try:
        return told_sides(path) is not None
    except RegardError:
        return False
