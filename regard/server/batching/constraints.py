"""Required terms as constraints of a search: pieces that an output must contain, for each part of a split input."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from regard.config.settings import SearchConfig
from regard.core.deadline import NO_DEADLINE, Deadline
from regard.data.protected_spans import RequiredTerm
from regard.tasks.translation.translator import Translator

MAX_PIECES = 64  # maximum number of required pieces of an output
BETWEEN = "\n"  # separator of parts, which no term contains
MIN_BEAM = 10  # minimum beam of a constrained search, which is divided by the number of satisfied constraints


def term_constraints(
    translator: Translator,
    parts: Sequence[Sequence[int]],
    terms: Sequence[RequiredTerm],
    settings: SearchConfig,
    deadline: Deadline = NO_DEADLINE,
) -> list[list[list[int]]]:
    """Return the required terms of each part as target ids.

    A term belongs to the part with the next occurrence of its source phrase after the previous term; a single part has
    all terms. Terms that the vocabulary cannot represent, or that exceed the limit of their part, are left out.

    Args:
        translator: the model.
        parts: the source ids of each part of a sentence.
        terms: the required terms of the sentence, in order.
        settings: the search settings.
        deadline: the deadline of the request.
    """
    constraints: list[list[list[int]]] = [[] for _ in parts]
    room = [min(MAX_PIECES, len(part) + settings.max_extra // 2) for part in parts]
    if not parts or not terms:
        return constraints
    try_encode = lru_cache(maxsize=None)(translator.try_encode)
    locator = _PhraseLocator(translator, parts)
    for term in terms:
        deadline.check()
        number = locator.next_part(term.source)
        pieces = try_encode(term.text) if number is not None and room[number] else None
        if number is not None and pieces is not None and len(pieces) <= room[number]:
            constraints[number].append(pieces)
            room[number] -= len(pieces)
    return constraints


class _PhraseLocator:
    """Search for consecutive phrases in the parts of a sentence, each of which is decoded once."""

    def __init__(self, translator: Translator, parts: Sequence[Sequence[int]]) -> None:
        texts = [translator.source.decode(part) for part in parts] if len(parts) > 1 else [""]
        self._one, self._text, self._at = len(parts) == 1, BETWEEN.join(texts), 0
        self._starts = [0, *accumulate(len(text) + len(BETWEEN) for text in texts[:-1])]

    def next_part(self, phrase: str) -> int | None:
        """Return the index of the part with the next occurrence of a phrase; None if it does not occur."""
        if self._one:
            return 0
        start = self._text.find(phrase, self._at)
        if start < 0:
            return None
        self._at = start + len(phrase)
        return bisect_right(self._starts, start) - 1


def widen_beam(settings: SearchConfig) -> SearchConfig:
    """Return the settings of a constrained search: a beam of at least MIN_BEAM, no sampling."""
    beam = max(settings.beam, settings.nbest, MIN_BEAM)
    return settings.model_copy(update={"beam": beam, "temperature": None, "top_k": None, "top_p": None})
