"""Hash buckets for the prefixes, suffixes and shape of a word, and for its match in another text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt

PREFIXES, SUFFIXES = (1, 2, 3), (1, 2, 3, 4)  # letters
AFFIXES = len(PREFIXES) + len(SUFFIXES) + 2
STEM = 4  # letters that a word must share with another one to match it in part


def shape(word: str) -> str:
    """Return the shape of a word: X, x, d or the character itself, at most three in a row (Berlin-86: ``Xxxx-dd``)."""
    pattern = ""
    for letter in word:
        kind = "X" if letter.isupper() else "x" if letter.isalpha() else "d" if letter.isdigit() else letter
        pattern += kind if not pattern.endswith(kind * 3) else ""
    return pattern


@lru_cache(maxsize=1 << 16)
def affix_buckets(word: str, buckets: int) -> tuple[int, ...]:
    """Return the buckets, from 1, of the lower-cased word, its prefixes, its suffixes and its shape.

    A prefix or suffix that is longer than the word has bucket 0.
    """
    small = word.lower()
    features = [small, *(small[:n] if n <= len(small) else "" for n in PREFIXES)]
    features += [small[-n:] if n <= len(small) else "" for n in SUFFIXES] + [shape(word)]
    return tuple(_bucket(f"{number} {feature}", buckets) if feature else 0 for number, feature in enumerate(features))


def match_buckets(words: Sequence[str], other_words: Sequence[str], buckets: int) -> list[int]:
    """Return the bucket of the match of each word in ``other_words``: itself, one with its first letters, or none.

    Letter case does not count. A learned vector for the exact match is by Chen et al. (2017, §3.2).
    """
    whole = {word.lower() for word in other_words}
    stems = {word[:STEM] for word in whole}
    same, similar, none = (_bucket(f"match {kind}", buckets) for kind in ("same", "similar", "none"))
    return [same if word in whole else similar if word[:STEM] in stems else none for word in map(str.lower, words)]


def word_features(texts: Sequence[Sequence[str]], buckets: int, *, matches: bool) -> npt.NDArray[np.int64]:
    """Return the buckets (words, features) of an example: affixes and, with ``matches``, matches in the other text."""
    features = [affix_buckets(word, buckets) for words in texts for word in words]
    table = np.array(features, np.int64).reshape(-1, AFFIXES)
    if not matches:
        return table
    one, other = texts
    marks = [*match_buckets(one, other, buckets), *match_buckets(other, one, buckets)]
    return np.column_stack([table, np.array(marks, np.int64)])


def _bucket(feature: str, buckets: int) -> int:
    return 1 + crc32(feature.encode("utf-8", "surrogatepass")) % buckets
