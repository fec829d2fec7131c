"""What must be in an output as the pieces that a search can be held to, part by part where an input was cut."""

from __future__ import annotations

from collections.abc import Sequence

from regard.config.settings import SearchConfig
from regard.data.protected_spans import Demand
from regard.tasks.translation.translator import Translator

__all__ = ["constraints_of", "widened"]

MOST = 64  # pieces that are demanded of one output
WIDE = 10  # hypotheses at least, since they are shared out among those that have said more and less of it


def constraints_of(
    translator: Translator, parts: Sequence[Sequence[int]], demands: Sequence[Demand], settings: SearchConfig
) -> list[list[list[int]]]:
    """Of each part what stands in it; without what cannot be spelled, and no more than it has room for."""
    found: list[list[list[int]]] = [[] for _ in parts]
    for demand in demands:
        pieces = translator.spelled(demand.text)
        if pieces is None:
            continue
        for number in _parts_with(translator, parts, demand):
            room = min(MOST, len(parts[number]) + settings.max_extra // 2)
            if sum(map(len, found[number])) + len(pieces) <= room:
                found[number].append(pieces)
                break
    return found


def _parts_with(translator: Translator, parts: Sequence[Sequence[int]], demand: Demand) -> list[int]:
    """The one that there is; of several those in which the demanded phrase stands."""
    if len(parts) < 2:
        return list(range(len(parts)))
    return [number for number, part in enumerate(parts) if demand.source in translator.source.decode(part)]


def widened(settings: SearchConfig) -> SearchConfig:
    """For a search that is held to something: a wider beam, and nothing drawn."""
    beam = max(settings.beam, settings.nbest, WIDE)
    return settings.model_copy(update={"beam": beam, "temperature": None, "top_k": None, "top_p": None})
