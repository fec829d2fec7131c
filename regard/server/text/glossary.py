"""Glossaries: target phrases for source phrases, search for terms in a sentence, parsing and formatting of entries."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Mapping, Sequence

from regard.core.deadline import NO_DEADLINE, Deadline
from regard.data.protected_spans import RequiredTerm
from regard.server.api_error import ApiError
from regard.server.text.phrase_search import Phrase, PhraseSearch
from regard.server.text.word_spans import word_spans

MAX_LENGTH = 1024  # maximum number of characters of a term


class Glossary:
    """Source phrases and the target phrases that translate them."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        self.entries = dict(entries)
        self._search: PhraseSearch | None = None

    def find_terms(self, sentence: str, deadline: Deadline = NO_DEADLINE) -> list[RequiredTerm]:
        """Return the phrases in ``sentence``, in order, as whole words in upper or lower case.

        Of overlapping phrases, the longest is returned.
        """
        if self._search is None:
            self._search = PhraseSearch(self._phrases(deadline), deadline)
        spans, terms = word_spans(sentence), []
        for match in self._search.find(_phrase(sentence), deadline):
            start, stop = spans[match.first].start, spans[match.end - 1].end
            terms.append(RequiredTerm(start, stop, sentence[start:stop], match.value))
        return terms

    def _phrases(self, deadline: Deadline) -> dict[Phrase, str]:
        """Return the target phrases by the case-folded words of the source phrase; the first entry has priority."""
        phrases: dict[Phrase, str] = {}
        for source, target in self.entries.items():
            deadline.check()
            if phrase := _phrase(source):
                phrases.setdefault(phrase, target)
        return phrases


def _phrase(text: str) -> Phrase:
    """Return the words of ``text``, case-folded."""
    return tuple(text[word.start : word.end].casefold() for word in word_spans(text))


def parse_entries(text: str, format: str) -> dict[str, str]:
    """Parse the entries (source to target) in ``text``, in the format ``tsv`` or ``csv``.

    Raises:
        ApiError: 400 for invalid entries.
    """
    if format == "tsv":
        rows: Sequence[Sequence[str]] = [line.split("\t") for line in text.splitlines()]
    elif format == "csv":
        try:
            rows = list(csv.reader(text.splitlines(), strict=True))
        except csv.Error as error:
            raise ApiError(400, "Invalid glossary entries: the text is not CSV.") from error
    else:
        raise ApiError(400, "Value for 'entries_format' not supported.")
    entries: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        terms = [term.strip() for term in row]
        if not any(terms):
            continue
        if len(terms) != 2 and not (format == "csv" and len(terms) == 4):  # CSV may add the two languages
            raise ApiError(400, f"Invalid glossary entries: line {number} must have a source and a target term.")
        source, target = terms[:2]
        if not (is_valid_term(source) and is_valid_term(target)):
            raise ApiError(
                400,
                f"Invalid glossary entries: line {number} has a term that is empty, too long or not a single line.",
            )
        if source in entries:
            raise ApiError(400, f"Invalid glossary entries: line {number} repeats a source term.")
        entries[source] = target
    if not entries:
        raise ApiError(400, "Invalid glossary entries: the text has no entries.")
    return entries


def is_valid_term(text: str) -> bool:
    """Return whether ``text`` is a single line, not blank, of at most MAX_LENGTH characters."""
    return (
        0 < len(text.strip())
        and len(text) <= MAX_LENGTH
        and not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text)
    )


def format_tsv(entries: Mapping[str, str]) -> str:
    """Return the entries as TSV, the format of ``parse_entries``."""
    return "".join(f"{source}\t{target}\n" for source, target in entries.items())
