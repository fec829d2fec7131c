"""Response headers with notices about a translation, for interfaces without a field for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

from regard.server.translation_request import TranslationResult

MAX_PIECES, MAX_LENGTH = 16, 20  # limits of pieces, and of characters of each piece, because headers must be short


def count_unknown(result: TranslationResult) -> Counter[str]:
    """Count the unknown pieces of a source text (``Translation.unknown``)."""
    return Counter(piece for sentence in result.sentences for piece in sentence.unknown)


def notice_headers(results: Sequence[TranslationResult]) -> dict[str, str]:
    """Return the headers ``Regard-Unknown: %E2%99%9E=2, …`` (most frequent first) and ``Regard-Uncertain: de``."""
    unknown = sum(map(count_unknown, results), Counter[str]())
    detected = [result.detected for result in results if result.detected is not None]
    uncertain = [language.code for language in detected if language.uncertain]
    headers = {}
    if unknown:
        headers["Regard-Unknown"] = ", ".join(
            f"{quote(piece[:MAX_LENGTH], safe='')}={count}" for piece, count in unknown.most_common(MAX_PIECES)
        )
    if uncertain:
        headers["Regard-Uncertain"] = ", ".join(dict.fromkeys(uncertain))
    return headers
