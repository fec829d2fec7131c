"""Words of a text with their positions: runs of letters and digits, single punctuation marks, CJK characters."""

from __future__ import annotations

import re
from typing import NamedTuple

MARKS = r"!-/:-@\[-`{-~¡-©«-´¶-¹»-¿‐-‧‰-⁞、-〃〈-】〔-〟！-／：-＠［-｀｛-･"
CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # scripts without spaces between words
WORD = re.compile(rf"[{CJK}]|[^\s{MARKS}{CJK}]+|[{MARKS}]")


class WordSpan(NamedTuple):
    """Position of a word: ``text[start:end]``."""

    start: int
    end: int


def word_spans(text: str) -> list[WordSpan]:
    """Return the words of a text, in order."""
    return [WordSpan(*match.span()) for match in WORD.finditer(text)]
