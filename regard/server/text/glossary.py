"""Terms and what they are to be called: where they occur in a sentence, and how they are written down."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cached_property

from regard.data.protected_spans import Demand
from regard.server.api_error import ApiError
from regard.server.text.word_spans import words

__all__ = ["Glossary", "entries_of", "is_term", "tsv"]

LONGEST = 1024  # letters of a term
Phrase = tuple[str, ...]


class Glossary:
    """Source phrases and the target phrases that stand for them."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        self.entries = dict(entries)

    @cached_property
    def _phrases(self) -> dict[Phrase, str]:
        return {phrase: target for source, target in reversed(self.entries.items()) if (phrase := _phrase(source))}

    @cached_property
    def _lengths(self) -> dict[str, set[int]]:
        """How long the phrases are that a word begins."""
        found: dict[str, set[int]] = {}
        for phrase in self._phrases:
            found.setdefault(phrase[0], set()).add(len(phrase))
        return found

    def demands(self, sentence: str) -> list[Demand]:
        """Where its phrases stand as whole words, in any case; of those that overlap the longest. In their order."""
        places, said = words(sentence), _phrase(sentence)
        found = [
            (at, at + length, self._phrases[phrase])
            for at, first in enumerate(said)
            for length in self._lengths.get(first, ())
            if (phrase := said[at : at + length]) in self._phrases and len(phrase) == length
        ]
        taken: set[int] = set()
        demands = []
        for first, end, target in sorted(found, key=lambda each: each[0] - each[1]):
            if taken.isdisjoint(range(first, end)):
                taken.update(range(first, end))
                start, stop = places[first].start, places[end - 1].end
                demands.append(Demand(start, stop, sentence[start:stop], target))
        return sorted(demands)


def _phrase(text: str) -> Phrase:
    return tuple(text[word.start : word.end].casefold() for word in words(text))


def entries_of(text: str, format: str) -> dict[str, str]:
    """The entries of a file in ``tsv`` or ``csv``. ApiError where it is none, or a term is there twice."""
    if format == "tsv":
        rows: Sequence[Sequence[str]] = [line.split("\t") for line in text.splitlines()]
    elif format == "csv":
        try:
            rows = list(csv.reader(text.splitlines(), strict=True))
        except csv.Error as error:
            raise ApiError(400, "Invalid glossary entries: this is no CSV.") from error
    else:
        raise ApiError(400, "Value for 'entries_format' not supported.")
    entries: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        terms = [term.strip() for term in row]
        if not any(terms):
            continue
        if len(terms) != 2 and not (format == "csv" and len(terms) == 4):  # CSV may name the languages too
            raise ApiError(400, f"Invalid glossary entries: line {number} is not a source and a target.")
        source, target = terms[:2]
        if not (is_term(source) and is_term(target)):
            raise ApiError(400, f"Invalid glossary entries: a term of line {number} is empty, too long or no text.")
        if source in entries:
            raise ApiError(400, f"Invalid glossary entries: the source of line {number} is there twice.")
        entries[source] = target
    if not entries:
        raise ApiError(400, "Invalid glossary entries: there are none.")
    return entries


def is_term(text: str) -> bool:
    """One line of text."""
    return (
        0 < len(text.strip())
        and len(text) <= LONGEST
        and not any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in text)
    )


def tsv(entries: Mapping[str, str]) -> str:
    """As ``entries_of`` reads it."""
    return "".join(f"{source}\t{target}\n" for source, target in entries.items())
