"""A text as the sentences that a model translates, and all that stands between them, which stays as it is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import sentencex

from regard.server.kept import kept
from regard.server.links import Links

__all__ = ["Document", "Segments", "segments"]


class Document(Protocol):
    """A text whose ``sentences`` are translated, and all else that it consists of.

    ``linked`` are the numbers of those of which ``joined`` wants to know which word stands for which.
    """

    @property
    def sentences(self) -> list[str]: ...

    @property
    def linked(self) -> Collection[int]: ...

    def joined(self, sentences: Sequence[str], links: Mapping[int, Links]) -> str:
        """The text with these for its sentences."""


class Segments(NamedTuple):
    """``between`` has one more than ``sentences``: what stands before the first, between two, and after the last."""

    sentences: list[str]
    between: list[str]

    @property
    def linked(self) -> Collection[int]:
        return ()

    def joined(self, sentences: Sequence[str], links: Mapping[int, Links] | None = None) -> str:
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
    return _unbroken(parts, line) if "".join(parts) == line else [line]


def _unbroken(parts: Sequence[str], line: str) -> list[str]:
    """No sentence ends inside an address, a placeholder or a number."""
    things = kept(line)
    starts = [thing.start for thing in things]
    found, at = [""], 0
    for part in parts:
        number = bisect_left(starts, at) - 1
        if number >= 0 and at < things[number].end:
            found[-1] += part
        else:
            found.append(part)
        at += len(part)
    return found
