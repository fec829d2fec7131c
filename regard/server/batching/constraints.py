"""Required terms as constraints of a search: pieces that an output must contain, for each part of a cut input."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from regard.config.settings import SearchConfig
from regard.core.deadline import NO_DEADLINE, Deadline
from regard.data.protected_spans import RequiredTerm
from regard.tasks.translation.translator import Translator

MAX_PIECES = 64  # required pieces of one output
BETWEEN = "\n"  # parts: no term has a line end
MIN_BEAM = 10  # hypotheses of a constrained search, which are shared among those that met more and fewer constraints


def term_constraints(
    translator: Translator,
    parts: Sequence[Sequence[int]],
    terms: Sequence[RequiredTerm],
    settings: SearchConfig,
    deadline: Deadline = NO_DEADLINE,
) -> list[list[list[int]]]:
    """Return for each part (numbers of source pieces) the required terms as numbers of target pieces.

    A term belongs to the part in which its source phrase occurs next after the term before; a single part has all of
    them. Terms that the model cannot spell, or that exceed the room of their part, are left out.

    Args:
        translator: the model.
        parts: the parts of one sentence.
        terms: the required terms of the sentence, in order.
        settings: of the search.
        deadline: of the request.
    """
    constraints: list[list[list[int]]] = [[] for _ in parts]
    room = [min(MAX_PIECES, len(part) + settings.max_extra // 2) for part in parts]
    if not parts or not terms:
        return constraints
    spelled = lru_cache(maxsize=None)(translator.spelled)
    places = _Places(translator, parts)
    for term in terms:
        deadline.check()
        number = places.next_part(term.source)
        pieces = spelled(term.text) if number is not None and room[number] else None
        if number is not None and pieces is not None and len(pieces) <= room[number]:
            constraints[number].append(pieces)
            room[number] -= len(pieces)
    return constraints


class _Places:
    """Places of phrases, one after another, in the parts of a sentence, each of which is decoded once."""

    def __init__(self, translator: Translator, parts: Sequence[Sequence[int]]) -> None:
        texts = [translator.source.decode(part) for part in parts] if len(parts) > 1 else [""]
        self._one, self._text, self._at = len(parts) == 1, BETWEEN.join(texts), 0
        self._starts = [0, *accumulate(len(text) + len(BETWEEN) for text in texts[:-1])]

    def next_part(self, phrase: str) -> int | None:
        """Return the number of the part with the next occurrence of a phrase; None if there is none."""
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
