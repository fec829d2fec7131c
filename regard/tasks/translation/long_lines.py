"""Lines of more pieces than a model takes, cut at spaces into parts that it takes; nothing is left out."""

from __future__ import annotations

from regard.data.tokenizers.subword import split_language_mark
from regard.data.tokenizers.tokenizer import Tokenizer


def cut(line: str, tokenizer: Tokenizer, limit: int) -> list[list[int]]:
    """The pieces of the line in parts of up to ``limit``, each with the language mark that the line begins with."""
    found, text = split_language_mark(line) if tokenizer.reads_language_marks else ([], line)
    mark, room = "".join(found), max(1, limit - len(found))
    parts, current = [], mark
    for word in text.split():
        longer = f"{current} {word}".strip()
        if current != mark and len(tokenizer.encode(longer)) > limit:
            parts.append(tokenizer.encode(current))
            longer = f"{mark} {word}".strip()
        current = longer
    parts.append(tokenizer.encode(current))
    before = parts[0][: len(found)]
    return [[*before, *chunk] for part in parts for chunk in _chunks(part[len(found) :], room)]


def _chunks(pieces: list[int], size: int) -> list[list[int]]:
    """A word longer than the limit by itself is cut where it must be."""
    return [pieces[at : at + size] for at in range(0, len(pieces), size)]
