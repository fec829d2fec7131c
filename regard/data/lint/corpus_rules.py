"""What only shows in a whole corpus: repeats, odd ratios of length, stretches that are shifted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["odd_ratios", "repeats", "shifted_stretches", "unrelated"]

Numbers = npt.NDArray[Any]
BLOCK = 100  # lines judged together when looking for a shift
REACH = 3  # lines of shift looked for, either way
ODD = 6.0  # robust standard deviations


def repeats(hashes: Numbers) -> tuple[Numbers, Numbers]:
    """Positions whose hash stood at an earlier position, and the first such position, in rising order."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    again = np.zeros(len(ordered), np.bool_)
    again[1:] = ordered[1:] == ordered[:-1]
    # The first of each run of equals is carried along the run.
    head = np.maximum.accumulate(np.where(again, 0, np.arange(len(ordered))))
    later, first = order[again], order[head[again]]
    rising = np.argsort(later)
    return later[rising], first[rising]


def odd_ratios(source: Numbers, target: Numbers) -> Numbers:
    """Positions whose lengths (characters) do not go together, in rising order.

    Gale and Church: a target's length is c times its source's, give or take a variance that grows with
    the length. c is the ratio of the sums, the spread is estimated robustly (median absolute deviation), and what is
    more than ODD spreads away is odd, if also twice as long or half as long as expected.
    """
    if len(source) < 20:
        return np.empty(0, np.int64)
    expected = source * (float(np.sum(target)) / max(float(np.sum(source)), 1.0))
    deviation = (target - expected) / np.sqrt(source + 1.0)
    deviation -= np.median(deviation)
    spread = max(1.4826 * float(np.median(np.abs(deviation))), 0.25)
    factor = np.abs(np.log((target + 1.0) / (expected + 1.0)))
    return np.flatnonzero((np.abs(deviation) > ODD * spread) & (factor > np.log(2)))


def unrelated(source: Numbers, target: Numbers) -> float | None:
    """The correlation of the log lengths when it is too small for translations (< 0.2); None otherwise."""
    if len(source) < 50:
        return None
    first, second = np.log1p(source), np.log1p(target)
    if first.std() == 0 or second.std() == 0:
        return None
    correlation = float(np.corrcoef(first, second)[0, 1])
    return correlation if correlation < 0.2 else None


def shifted_stretches(source: Numbers, target: Numbers) -> Iterator[tuple[int, int, int]]:
    """(first, last, shift): positions between which line i of the source goes with line i + shift of the target.

    Blocks of BLOCK lines are compared at every shift up to REACH; a block counts as shifted when its lengths
    go together there clearly better (cost below 0.7) than as they stand. Neighbouring blocks are joined.
    """
    count = len(source)
    if count < BLOCK + 2 * REACH:
        return
    ratio = np.log1p(target) - np.log1p(source)
    usual = np.median(ratio)
    blocks = (count - 2 * REACH) // BLOCK
    inner = np.log1p(source[REACH : REACH + blocks * BLOCK])
    shifts = range(-REACH, REACH + 1)
    costs = np.stack(
        [
            np.abs(np.log1p(target[REACH + shift : REACH + shift + blocks * BLOCK]) - inner - usual)
            .reshape(blocks, BLOCK)
            .mean(1)
            for shift in shifts
        ]
    )
    best = np.argmin(costs, axis=0) - REACH
    shifted = costs.min(0) < 0.7 * costs[REACH]
    start = 0
    for block in range(blocks):
        following = block + 1
        if not shifted[block]:
            start = following
        elif following == blocks or not shifted[following] or best[following] != best[block]:
            yield REACH + start * BLOCK, REACH + following * BLOCK - 1, int(best[block])
            start = following
