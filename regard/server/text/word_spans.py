"""A text as words with their places: runs of letters and digits, marks one by one, and so the signs of Chinese."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Word", "words"]

MARKS = r"!-/:-@\[-`{-~¡-©«-´¶-¹»-¿‐-‧‰-⁞、-〃〈-】〔-〟！-／：-＠［-｀｛-･"
SIGNS = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # no spaces stand between words there
WORD = re.compile(rf"[{SIGNS}]|[^\s{MARKS}{SIGNS}]+|[{MARKS}]")


class Word(NamedTuple):
    """``text[start:end]``."""

    start: int
    end: int


def words(text: str) -> list[Word]:
    """In their order."""
    return [Word(*found.span()) for found in WORD.finditer(text)]
