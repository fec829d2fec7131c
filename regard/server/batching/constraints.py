"""Required terms as constraints of a search: pieces that an output must contain, for each part of a cut input."""

from __future__ import annotations

from collections.abc import Sequence

from regard.config.settings import SearchConfig
from regard.data.protected_spans import RequiredTerm
from regard.tasks.translation.translator import Translator

__all__ = ["term_constraints", "widen_beam"]

MAX_PIECES = 64  # required pieces of one output
MIN_BEAM = 10  # hypotheses of a constrained search, which are shared among those that met more and fewer constraints


def term_constraints(
    translator: Translator, parts: Sequence[Sequence[int]], terms: Sequence[RequiredTerm], settings: SearchConfig
) -> list[list[list[int]]]:
    """Return for each part (numbers of source pieces) the required terms as numbers of target pieces.

    Terms that the model cannot spell, or that exceed the room of their part, are left out.
    """
    constraints: list[list[list[int]]] = [[] for _ in parts]
    for term in terms:
        pieces = translator.spelled(term.text)
        if pieces is None:
            continue
        for number in _parts_with(translator, parts, term):
            room = min(MAX_PIECES, len(parts[number]) + settings.max_extra // 2)
            if sum(map(len, constraints[number])) + len(pieces) <= room:
                constraints[number].append(pieces)
                break
    return constraints


def _parts_with(translator: Translator, parts: Sequence[Sequence[int]], term: RequiredTerm) -> list[int]:
    """Return the numbers of the parts that contain the source phrase of ``term``; a single part always counts."""
    if len(parts) < 2:
        return list(range(len(parts)))
    return [number for number, part in enumerate(parts) if term.source in translator.source.decode(part)]


def widen_beam(settings: SearchConfig) -> SearchConfig:
    """Return the settings of a constrained search: a beam of at least MIN_BEAM, no sampling."""
    beam = max(settings.beam, settings.nbest, MIN_BEAM)
    return settings.model_copy(update={"beam": beam, "temperature": None, "top_k": None, "top_p": None})
