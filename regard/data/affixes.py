"""Beginnings, ends and shape of a word as numbers of buckets."""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

PREFIXES, SUFFIXES = (1, 2, 3), (1, 2, 3, 4)  # letters
AFFIXES = len(PREFIXES) + len(SUFFIXES) + 2


def shape(word: str) -> str:
    """Kinds of its characters, of a run at most three: X, x, d or the character itself (``Xxxx-dd`` of Berlin-86)."""
    found = ""
    for letter in word:
        kind = "X" if letter.isupper() else "x" if letter.isalpha() else "d" if letter.isdigit() else letter
        found += kind if not found.endswith(kind * 3) else ""
    return found


@lru_cache(maxsize=1 << 16)
def affix_buckets(word: str, buckets: int) -> tuple[int, ...]:
    """The buckets, from 1, of the word in small letters, its first and last letters, and its shape.

    A beginning or end that is longer than the word is 0: none.
    """
    small = word.lower()
    told = [small, *(small[:n] if n <= len(small) else "" for n in PREFIXES)]
    told += [small[-n:] if n <= len(small) else "" for n in SUFFIXES] + [shape(word)]
    return tuple(
        1 + crc32(f"{place} {each}".encode("utf-8", "surrogatepass")) % buckets if each else 0
        for place, each in enumerate(told)
    )
