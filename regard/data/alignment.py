"""Detection of the line after which two parallel files are shifted."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

ROUNDS = 3


def first_shifted_line(source: Iterable[int], target: Iterable[int]) -> int:
    """Return the line (from 1) after which the two sides stop matching, given the lengths of their lines.

    One gap is assumed: up to it line i faces line i, after it line i faces line i + d, d being the difference of the
    counts. Lengths of translations correlate, so the gap is where the sum of |log length ratio| before it, unshifted,
    and after it, shifted, is least. The result is the first line after the gap; if the longer side merely goes on, the
    line after the shorter one's last. Twelve bytes a line; exact for one gap if lengths are informative.
    """
    lengths = [np.log1p(np.fromiter(side, dtype=np.float32)) for side in (source, target)]
    short, long = sorted(lengths, key=len)
    count, shift = len(short), len(long) - len(short)
    unshifted = long[:count] - short
    shifted = long[shift:] - short
    gap = count
    for _ in range(ROUNDS):
        # The usual ratio of the two languages is not evidence of a shift. It is estimated from the lines that match
        # by the gap found so far.
        usual = np.median(np.concatenate([unshifted[:gap], shifted[gap:]])) if count else 0.0
        before = np.concatenate([[0.0], np.cumsum(np.abs(unshifted - usual), dtype=np.float64)])
        after = np.concatenate([[0.0], np.cumsum(np.abs(shifted - usual), dtype=np.float64)])
        cost = before + (after[-1] - after)
        # The last of equally good positions, so that lines that look parallel are not reported.
        gap = count - int(np.argmin(cost[::-1]))
    return gap + 1
