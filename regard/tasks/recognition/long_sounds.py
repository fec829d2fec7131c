"""Cuts of long recordings at their quietest places."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

WINDOW = 0.2  # seconds over which loudness is averaged
EARLIEST = 0.5  # share of the longest part after which a part may end


def cuts(frames: npt.NDArray[np.float32], longest: int, rate: float) -> list[tuple[int, int]]:
    """Return the first and the end frame of each part of a recording, none longer than ``longest`` frames.

    A part ends at the quietest window of 0.2 s between half of the longest part and the whole of it. The loudness of a
    frame is the mean of its channels, which are logarithms of energies.

    Args:
        frames: (frames, channels), before they are standardized.
        longest: maximum number of frames of a part.
        rate: frames per second.
    """
    if len(frames) <= longest:
        return [(0, len(frames))]
    width = max(round(WINDOW * rate), 1)
    loudness = np.convolve(frames.mean(1, dtype=np.float64), np.ones(width) / width, "same")
    parts, start = [], 0
    while len(frames) - start > longest:
        first = start + max(int(EARLIEST * longest), 1)
        end = first + int(loudness[first : start + longest].argmin()) if first < start + longest else start + longest
        parts.append((start, end))
        start = end
    return [*parts, (start, len(frames))]
