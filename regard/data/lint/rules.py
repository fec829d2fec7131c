"""Lint rules for one pair and for a whole corpus: characters, repeated lines, odd ratios of length, shifted ranges."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.core.wording import pluralize

Array = npt.NDArray[Any]
BLOCK = 100  # lines per block in the search for a shift
MAX_SHIFT = 3  # maximum shift in either direction, in lines
MAX_DEVIATION = 6.0  # robust standard deviations
MAX_WORDS, MAX_CHARACTERS = 250, 2000

# Control characters except the tab; line and paragraph separators, byte-order marks, direction overrides.
CONTROL = re.compile("[\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\ufeff]")
# UTF-8 that was decoded as Windows-1252 or Latin-1: Ã¤ for ä, â€™ for ’.
CONTINUATION = "\\x80-\\xbf" + "".join(bytes([byte]).decode("cp1252", errors="ignore") for byte in range(0x80, 0xA0))
MOJIBAKE = re.compile(f"[ÂÃÄÅÐÑ][{CONTINUATION}]|â[\\x80€][{CONTINUATION}]|ï¿½")
SAME_SCRIPT = {"CJK": "Han", "HIRAGANA": "Han", "KATAKANA": "Han", "IDEOGRAPHIC": "Han", "FULLWIDTH": "Latin"}


def check_pair(source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, message) for each suspicious property of a pair without blank sides."""
    for side, text in (("source", source), ("target", target)):
        if not text.isprintable() and (match := CONTROL.search(text)):
            yield "control", f"the {side} has the control character U+{ord(match[0]):04X}"
        if not text.isascii():
            if "\ufffd" in text:
                yield "mojibake", f"the {side} has U+FFFD, which replaces text lost in decoding"
            elif match := MOJIBAKE.search(text):
                yield "mojibake", f"the {side} has {match[0]!r}, which looks like UTF-8 decoded as another encoding"
        if len(text) > MAX_WORDS:  # a text has at most as many words as characters
            words = len(text.split())
            if words > MAX_WORDS or len(text) > MAX_CHARACTERS:
                yield "long", f"the {side} has {pluralize(words, 'word')}, {pluralize(len(text), 'character')}"
    if source == target:
        yield "identical", f"source and target are the same: {source[:40]!r}"


def main_script(text: str) -> str | None:
    """Return the most frequent script of the letters: Latin, Cyrillic, Han (with kana) …; None without letters."""
    if text.isascii():
        return "Latin" if any(map(str.isalpha, text)) else None
    counts = Counter(map(_script, text))
    del counts[None]
    return counts.most_common(1)[0][0] if counts else None


@lru_cache(maxsize=65536)
def _script(character: str) -> str | None:
    """Return the script of a letter; None for other characters."""
    if not character.isalpha():
        return None
    # The first word of a letter's Unicode name is its script.
    first = unicodedata.name(character, "").split(" ")[0]
    return SAME_SCRIPT.get(first, first.capitalize()) or None


def find_repeats(hashes: Array) -> tuple[Array, Array]:
    """Return the positions of repeated hashes, ascending, and for each the position of its first occurrence."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    repeated = np.zeros(len(ordered), np.bool_)
    repeated[1:] = ordered[1:] == ordered[:-1]
    # Within each run of equal hashes, propagate the position of the first one.
    head = np.maximum.accumulate(np.where(repeated, 0, np.arange(len(ordered))))
    later, first = order[repeated], order[head[repeated]]
    rising = np.argsort(later)
    return later[rising], first[rising]


def odd_length_ratios(source: Array, target: Array) -> Array:
    """Return the positions, ascending, of pairs whose lengths (in characters) do not match.

    Gale and Church: the length of a target is c times that of its source, with a variance that grows with the length. c
    is the ratio of the sums. The spread is estimated robustly (median absolute deviation). A length is odd if it
    deviates by more than MAX_DEVIATION spreads, and is over twice or under half the expected length.
    """
    if len(source) < 20:
        return np.empty(0, np.int64)
    expected = source * (float(np.sum(target)) / max(float(np.sum(source)), 1.0))
    deviation = (target - expected) / np.sqrt(source + 1.0)
    deviation -= np.median(deviation)
    spread = max(1.4826 * float(np.median(np.abs(deviation))), 0.25)
    factor = np.abs(np.log((target + 1.0) / (expected + 1.0)))
    return np.flatnonzero((np.abs(deviation) > MAX_DEVIATION * spread) & (factor > np.log(2)))


def unrelated_correlation(source: Array, target: Array) -> float | None:
    """Return the correlation of the log lengths if it is too small for translations (< 0.2), otherwise None."""
    if len(source) < 50:
        return None
    first, second = np.log1p(source), np.log1p(target)
    if first.std() == 0 or second.std() == 0:
        return None
    correlation = float(np.corrcoef(first, second)[0, 1])
    return correlation if correlation < 0.2 else None


def shifted_ranges(source: Array, target: Array) -> Iterator[tuple[int, int, int]]:
    """Yield (first, last, shift): positions between which source line i matches target line i + shift.

    Blocks of BLOCK lines are compared at every shift up to MAX_SHIFT. A block is shifted if its cost at the shift is
    below 0.7 of its unshifted cost. Neighboring blocks with the same shift are joined.
    """
    count = len(source)
    if count < BLOCK + 2 * MAX_SHIFT:
        return
    ratio = np.log1p(target) - np.log1p(source)
    median_ratio = np.median(ratio)
    blocks = (count - 2 * MAX_SHIFT) // BLOCK
    inner = np.log1p(source[MAX_SHIFT : MAX_SHIFT + blocks * BLOCK])
    shifts = range(-MAX_SHIFT, MAX_SHIFT + 1)
    costs = np.stack(
        [
            np.abs(np.log1p(target[MAX_SHIFT + shift : MAX_SHIFT + shift + blocks * BLOCK]) - inner - median_ratio)
            .reshape(blocks, BLOCK)
            .mean(1)
            for shift in shifts
        ]
    )
    best = np.argmin(costs, axis=0) - MAX_SHIFT
    shifted = costs.min(0) < 0.7 * costs[MAX_SHIFT]
    start = 0
    for block in range(blocks):
        following = block + 1
        if not shifted[block]:
            start = following
        elif following == blocks or not shifted[following] or best[following] != best[block]:
            yield MAX_SHIFT + start * BLOCK, MAX_SHIFT + following * BLOCK - 1, int(best[block])
            start = following
