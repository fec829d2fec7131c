"""Hash buckets for the prefixes, suffixes and shape of a word."""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

PREFIXES, SUFFIXES = (1, 2, 3), (1, 2, 3, 4)  # letters
AFFIXES = len(PREFIXES) + len(SUFFIXES) + 2


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
    return tuple(
        1 + crc32(f"{number} {feature}".encode("utf-8", "surrogatepass")) % buckets if feature else 0
        for number, feature in enumerate(features)
    )
