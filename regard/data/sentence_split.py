"""Sentence splitting that preserves the text between sentences: white space, list markers, numbering."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from regard.core.deadline import NO_DEADLINE, Deadline
from regard.data.protected_spans import find_protected_spans

# Markers of lists and quotations, and numbering, at the start of a line: "- ", "> * ", "1. ", "2.1. ", "(a) ", "[x] ".
BULLET = r"[-*+•‣▪◦●○·–—]"
NUMBER = r"\d{1,3}(?:\.\d{1,3}){0,4}\.|\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})\)"
LIST_MARKER = re.compile(rf"\s*(?:(?:>+|{BULLET}|{NUMBER}|\[[ xX]\])[ \t\u00a0]+)*")
ORDINAL = re.compile(r"\s*\d{1,3}\.\s+")  # "3. Oktober", "1. FC": an ordinal, unless in a list


class SplitText(NamedTuple):
    """Sentences of a text, and the strings around them.

    ``between`` has one more element than ``sentences``: before the first, between neighbors, after the last.
    """

    sentences: list[str]
    between: list[str]

    @property
    def needs_alignment(self) -> Collection[int]:
        """Indices of the sentences whose word alignment ``join`` uses: none."""
        return ()

    def join(self, sentences: Sequence[str], alignments: Mapping[int, Sequence[int]] | None = None) -> str:
        """Return the text with its sentences replaced by ``sentences``; ``alignments`` are ignored."""
        inner = [part for pair in zip(sentences, self.between[1:], strict=True) for part in pair]
        return "".join([self.between[0], *inner])


def split_sentences(text: str, language: str | None, deadline: Deadline = NO_DEADLINE) -> SplitText:
    """Split each line into sentences by the rules of ``language`` (a code; English if None). Lines are never joined.

    White space, list markers, numbering, and parts without letters and digits are kept between the sentences. A number
    with a point is numbering if the previous or next line also has a marker. Otherwise it may be an ordinal, and
    belongs to its sentence.
    """
    sentences, between = [], [""]
    lines = text.splitlines(keepends=True)
    for line, marker_end in zip(lines, _marker_ends(lines), strict=True):
        deadline.check()
        between[-1] += line[:marker_end]
        for part in _split_line(line[marker_end:], language or "en"):
            core = part.strip()
            if not any(map(str.isalnum, core)):
                between[-1] += part
                continue
            start = part.index(core)
            between[-1] += part[:start]
            sentences.append(core)
            between.append(part[start + len(core) :])
    return SplitText(sentences, between)


def whole_text(text: str) -> SplitText:
    """Return the whole text as one input, line ends as spaces, for models of whole texts, as in summarization."""
    joined = " ".join(text.split())
    return SplitText([joined], ["", ""]) if joined else SplitText([], [text])


def _marker_ends(lines: Sequence[str]) -> list[int]:
    """Return the length in characters of the list marker of each line, including preceding white space."""
    ends = [match.end() if (match := LIST_MARKER.match(line)) else 0 for line in lines]
    indents = [len(line) - len(line.lstrip()) for line in lines]
    filled = [number for number, line in enumerate(lines) if line.strip()]
    has_marker = [ends[number] > indents[number] for number in filled]
    for position, number in enumerate(filled):
        neighbors = [*has_marker[max(position - 1, 0) : position], *has_marker[position + 1 : position + 2]]
        if ORDINAL.match(lines[number]) and not any(neighbors):
            ends[number] = indents[number]
    return ends


def _split_line(line: str, language: str) -> list[str]:
    """Split a line with ``sentencex``; the parts always concatenate to the line.

    The line stays whole if ``sentencex`` (the extra "serve") is not installed, fails, or changes text.
    """
    try:
        import sentencex

        parts: list[str] = list(sentencex.segment(language.lower().partition("-")[0], line))
    except BaseException as error:  # its Rust code panics on some texts; a panic is not an Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return [line]
    if "".join(parts) != line:
        return [line]
    if len(parts) > 1 and ORDINAL.fullmatch(parts[0]):
        parts[:2] = ["".join(parts[:2])]
    return _rejoin_protected(parts, line)


def _rejoin_protected(parts: Sequence[str], line: str) -> list[str]:
    """Join parts whose border is inside a protected span: an address, a placeholder, a number."""
    spans = find_protected_spans(line)
    starts = [span.start for span in spans]
    sentences, position = [""], 0
    for part in parts:
        number = bisect_left(starts, position) - 1
        if number >= 0 and position < spans[number].end:
            sentences[-1] += part
        else:
            sentences.append(part)
        position += len(part)
    return sentences
