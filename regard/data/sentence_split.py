"""A text as the sentences that a model translates, and all that stands between them, which stays as it is."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from regard.data.protected_spans import kept

__all__ = ["SplitText", "segments"]

# Marks of lists and quotations, and numbering, that a line begins with: "- ", "> * ", "1. ", "2.1. ", "(a) ", "[x] ".
BULLET = r"[-*+•‣▪◦●○·–—]"
NUMBER = r"\d{1,3}(?:\.\d{1,3}){0,4}\.|\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})\)"
MARK = re.compile(rf"\s*(?:(?:>+|{BULLET}|{NUMBER}|\[[ xX]\])[ \t\u00a0]+)*")
ORDINAL = re.compile(r"\s*\d{1,3}\.\s+")  # "3. Oktober", "1. FC", where no list is about


class SplitText(NamedTuple):
    """``between`` has one more than ``sentences``: what stands before the first, between two, and after the last."""

    sentences: list[str]
    between: list[str]

    @property
    def linked(self) -> Collection[int]:
        return ()

    def joined(self, sentences: Sequence[str], links: Mapping[int, Sequence[int]] | None = None) -> str:
        """These in the place of the sentences; the text itself for its own sentences."""
        inner = [part for pair in zip(sentences, self.between[1:], strict=True) for part in pair]
        return "".join([self.between[0], *inner])


def segments(text: str, language: str | None) -> SplitText:
    """Lines are never joined; sentences of one are told apart by the habits of ``language``, English unless given.

    Blanks, marks of lists, numbering, and what has no letter and no digit are between sentences. A number with a point
    is numbering where the line before or after has a mark, too; else it may be an ordinal, and is part of its sentence.
    """
    sentences, between = [], [""]
    lines = text.splitlines(keepends=True)
    for line, begin in zip(lines, _marks(lines), strict=True):
        between[-1] += line[:begin]
        for part in _parted(line[begin:], language or "en"):
            core = part.strip()
            if not any(map(str.isalnum, core)):
                between[-1] += part
                continue
            start = part.index(core)
            between[-1] += part[:start]
            sentences.append(core)
            between.append(part[start + len(core) :])
    return SplitText(sentences, between)


def _marks(lines: Sequence[str]) -> list[int]:
    """How much of each line is its mark, blanks before it included."""
    found = [match.end() if (match := MARK.match(line)) else 0 for line in lines]
    blanks = [len(line) - len(line.lstrip()) for line in lines]
    filled = [number for number, line in enumerate(lines) if line.strip()]
    listed = [found[number] > blanks[number] for number in filled]
    for at, number in enumerate(filled):
        beside = [*listed[max(at - 1, 0) : at], *listed[at + 1 : at + 2]]
        if ORDINAL.match(lines[number]) and not any(beside):
            found[number] = blanks[number]
    return found


def _parted(line: str, language: str) -> list[str]:
    """Whoever parts it, nothing is lost. Without ``sentencex``, which servers have, a line is a sentence."""
    try:
        import sentencex

        parts: list[str] = list(sentencex.segment(language.lower().partition("-")[0], line))
    except BaseException as error:  # it panics at some texts
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return [line]
    if "".join(parts) != line:
        return [line]
    if len(parts) > 1 and ORDINAL.fullmatch(parts[0]):
        parts[:2] = ["".join(parts[:2])]
    return _unbroken(parts, line)


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
