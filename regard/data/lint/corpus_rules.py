"""Lint rules for a whole corpus: repeated lines, odd ratios of length, shifted ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BLOCK = 100  # lines per block in the search for a shift
MAX_SHIFT = 3  # maximum shift in either direction, in lines
MAX_DEVIATION = 6.0  # robust standard deviations


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
