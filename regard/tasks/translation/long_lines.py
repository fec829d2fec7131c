"""Splitting of lines that are too long for a model, at spaces and without loss."""

from __future__ import annotations

from regard.data.tokenizers.subword import split_language_mark
from regard.data.tokenizers.tokenizer import Tokenizer


def split_line(line: str, tokenizer: Tokenizer, limit: int) -> list[list[int]]:
    """Return the pieces of a line in parts of up to ``limit`` pieces.

    A language mark at the beginning of the line is repeated in each part.
    """
    marks, text = split_language_mark(line) if tokenizer.reads_language_marks else ([], line)
    mark, room = "".join(marks), max(1, limit - len(marks))
    parts, current = [], mark
    for word in text.split():
        longer = f"{current} {word}".strip()
        if current != mark and len(tokenizer.encode(longer)) > limit:
            parts.append(tokenizer.encode(current))
            longer = f"{mark} {word}".strip()
        current = longer
    parts.append(tokenizer.encode(current))
    before = parts[0][: len(marks)]
    return [[*before, *chunk] for part in parts for chunk in _chunks(part[len(marks) :], room)]


def _chunks(pieces: list[int], size: int) -> list[list[int]]:
    """Split a part at any piece: a single word can be longer than the limit."""
    return [pieces[start : start + size] for start in range(0, len(pieces), size)]
