"""A text as the sentences that a model translates, and all that stands between them, which stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sentencex

__all__ = ["Segments", "segments"]


class Segments(NamedTuple):
    """``between`` has one more than ``sentences``: what stands before the first, between two, and after the last."""

    sentences: list[str]
    between: list[str]

    def joined(self, sentences: Sequence[str]) -> str:
        """These in the place of the sentences; the text itself for its own sentences."""
        inner = [part for pair in zip(sentences, self.between[1:], strict=True) for part in pair]
        return "".join([self.between[0], *inner])


def segments(text: str, language: str | None) -> Segments:
    """Lines are never joined; sentences of one are told apart by the habits of ``language``, English unless given."""
    sentences, between = [], [""]
    for line in text.splitlines(keepends=True):
        for part in _parted(line, language or "en"):
            core = part.strip()
            if not core:
                between[-1] += part
                continue
            start = part.index(core)
            between[-1] += part[:start]
            sentences.append(core)
            between.append(part[start + len(core) :])
    return Segments(sentences, between)


def _parted(line: str, language: str) -> list[str]:
    """Whoever parts it, nothing is lost."""
    try:
        parts: list[str] = list(sentencex.segment(language.lower().partition("-")[0], line))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return [line]
    return parts if "".join(parts) == line else [line]
