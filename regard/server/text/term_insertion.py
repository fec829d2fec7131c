"""Insertion of missing required terms into an output, next to the words aligned with their neighbors."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from regard.data.protected_spans import RequiredTerm, capitalized
from regard.server.text.word_alignment import WordAlignment
from regard.server.text.word_spans import word_spans

CLOSING = ".,;:!?)]}»”’…。、，！？）"
OPENING = "([{«„“‘（"


def insert_terms(source: str, output: str, alignment: WordAlignment, terms: Sequence[RequiredTerm]) -> str:
    """Return ``output`` with all ``terms`` inserted, each next to the words aligned with its neighbors in the source.

    A glossary term replaces all output words that are aligned with it. A protected span replaces only aligned marks and
    words that are a part of it, because these are its translation by the model.
    """
    locator = _TermLocator(source, output, alignment)
    changes: list[tuple[int, int, RequiredTerm]] = []
    for (start, end), term in sorted((locator.span(term), term) for term in terms):
        used = changes[-1][1] if changes else 0
        changes.append((start, end, term) if start >= used else (used, used, term))
    # Insert from last to first, because the space after a term depends on the text that follows. ``parts`` is reversed.
    parts: list[str] = []
    after, end = output[:0], len(output)
    for start, stop, term in reversed(changes):
        after = _push(parts, output[stop:end], after)
        if after[:2] == "  ":  # the replaced word was between two spaces
            parts[-1], after = parts[-1][1:], after[1:]
        right = " " if after and not after[0].isspace() and after[0] not in CLOSING else ""
        before = output[start - 1 : start]
        left = " " if before and not before.isspace() and before not in OPENING else ""
        capital = start == 0 and output[:1].isupper() and term.source != term.text
        after = _push(parts, f"{left}{capitalized(term.text) if capital else term.text}{right}", after)
        end = start
    return "".join(reversed([*parts, output[:end]]))


def _push(parts: list[str], text: str, after: str) -> str:
    """Append ``text`` to ``parts`` unless it is empty; return the first two characters of the text so far."""
    if text:
        parts.append(text)
    return (text + after)[:2]


class _TermLocator:
    """Search for the position of source terms in an output, in logarithmic time per term."""

    def __init__(self, source: str, output: str, alignment: WordAlignment) -> None:
        self._output, self._words = output, word_spans(output)
        words = word_spans(source)
        self._starts, self._ends = [word.start for word in words], [word.end for word in words]
        self._links = sorted((link, number) for number, link in enumerate(alignment))
        self._firsts = [number for _, number in self._links]  # first output word of this and all later links
        for index in range(len(self._firsts) - 2, -1, -1):
            self._firsts[index] = min(self._firsts[index], self._firsts[index + 1])

    def span(self, term: RequiredTerm) -> tuple[int, int]:
        """Return the characters of the output (start, end) that a term replaces; an empty span to insert it."""
        first, end = bisect_right(self._ends, term.start), bisect_left(self._starts, term.end)
        if first >= end or not self._links:
            return len(self._output), len(self._output)
        begin, stop = bisect_left(self._links, (first, -1)), bisect_left(self._links, (end, -1))
        aligned = sorted(number for _, number in self._links[begin:stop])
        run = _longest_run([number for number in aligned if _is_replaced(self._text(number), term)])
        if run:
            return self._words[run[0]].start, self._words[run[-1]].end
        if begin:
            before = self._words[self._links[begin - 1][1]]
            return before.end, before.end
        after = self._words[self._firsts[begin] if begin < len(self._firsts) else 0]
        return after.start, after.start

    def _text(self, number: int) -> str:
        """Return a word of the output."""
        return self._output[self._words[number].start : self._words[number].end]


def _longest_run(numbers: Sequence[int]) -> list[int]:
    """Return the longest run of consecutive numbers, the first of equal ones."""
    runs: list[list[int]] = [[]]
    for number in numbers:
        if runs[-1] and number != runs[-1][-1] + 1:
            runs.append([])
        runs[-1].append(number)
    return max(runs, key=len)


def _is_replaced(word: str, term: RequiredTerm) -> bool:
    """Return whether ``term`` replaces an output word that is aligned with it."""
    if term.source != term.text:
        return any(map(str.isalnum, word))
    if term.is_number:
        return not any(character.isalpha() for character in word)
    return not any(map(str.isalnum, word)) or word.casefold() in term.text.casefold()
