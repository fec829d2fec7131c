"""Where two files that should be parallel begin to look shifted."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

__all__ = ["first_shifted_line"]

ROUNDS = 3


def first_shifted_line(source: Iterable[int], target: Iterable[int]) -> int:
    """The line (from 1) after which the two sides stop matching, from the lengths of their lines.

    One gap is assumed: up to it line i faces line i, after it line i faces line i + d, d being the difference
    of the counts. The lengths of translations go together, so the gap is where the sum of |log length ratio|
    before it, unshifted, and after it, shifted, is least. The answer is the first line after the gap;
    when the longer side merely goes on, it is the line after the shorter one's last.
    Twelve bytes a line; exact for one gap when lengths are informative.
    """
    lengths = [np.log1p(np.fromiter(side, dtype=np.float32)) for side in (source, target)]
    short, long = sorted(lengths, key=len)
    count, shift = len(short), len(long) - len(short)
    unshifted = long[:count] - short
    shifted = long[shift:] - short
    gap = count
    for _ in range(ROUNDS):
        # The usual ratio of the two languages is no evidence. It shows in the lines that do face each other,
        # which are those of the gap found so far.
        usual = np.median(np.concatenate([unshifted[:gap], shifted[gap:]])) if count else 0.0
        before = np.concatenate([[0.0], np.cumsum(np.abs(unshifted - usual), dtype=np.float64)])
        after = np.concatenate([[0.0], np.cumsum(np.abs(shifted - usual), dtype=np.float64)])
        cost = before + (after[-1] - after)
        # Of equally good places the last: what still looks parallel is not accused.
        gap = count - int(np.argmin(cost[::-1]))
    return gap + 1
