"""What an answer has to say beside its texts, in headers, for the dialects that have no field for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

from regard.server.translation_request import TranslationResult

__all__ = ["notices", "unknown_of"]

MOST, LONGEST = 16, 20  # of them, and letters of one: a header is short


def unknown_of(answer: TranslationResult) -> Counter[str]:
    """How often what the model has no piece for stands in the text (``Translation.unknown``)."""
    return Counter(piece for sentence in answer.sentences for piece in sentence.unknown)


def notices(answers: Sequence[TranslationResult]) -> dict[str, str]:
    """``Regard-Unknown: %E2%99%9E=2, …``, most frequent first, and ``Regard-Uncertain: de`` of languages found out."""
    unknown = sum(map(unknown_of, answers), Counter[str]())
    uncertain = [each.detected.code for each in answers if each.detected is not None and each.detected.uncertain]
    found = {}
    if unknown:
        found["Regard-Unknown"] = ", ".join(
            f"{quote(piece[:LONGEST], safe='')}={count}" for piece, count in unknown.most_common(MOST)
        )
    if uncertain:
        found["Regard-Uncertain"] = ", ".join(dict.fromkeys(uncertain))
    return found
