"""Places at which sounds are cut: the quietest one of a range, and silences."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from regard.data.log_mel import FRAME_RATE, LogMel, window_energies
from regard.data.wav_files import Samples

WINDOW = 0.2  # seconds over which loudness is averaged
EARLIEST = 0.5  # share of the longest part after which a part may end

Numbers = npt.NDArray[np.float64]


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
    loudness = smooth_loudness(frames, rate)
    parts, start = [], 0
    while len(frames) - start > longest:
        end = quietest(loudness, start + max(int(EARLIEST * longest), 1), start + longest)
        parts.append((start, end))
        start = end
    return [*parts, (start, len(frames))]


def smooth_loudness(frames: npt.NDArray[np.float32], rate: float) -> Numbers:
    """Return the mean of the channels of each frame (frames,), averaged over 0.2 s."""
    width = max(round(WINDOW * rate), 1)
    return np.convolve(frames.mean(1, dtype=np.float64), np.ones(width) / width, "same")


def quietest(loudness: Numbers, first: int, end: int) -> int:
    """Return the frame with the least loudness from ``first`` up to, but without, ``end``; ``end`` if none exists."""
    return first + int(loudness[first:end].argmin()) if first < end else end


def silence_at_end(samples: Samples, recipe: LogMel, decibels: float) -> float:
    """Return the seconds of silence at the end of a sound.

    A window is silent if its energy is more than ``decibels`` below the reference: the energy that windows of 0.2 s in
    all exceed. A short click therefore does not make speech silent. A sound without energy has no silence.
    """
    energies = window_energies(samples, recipe)
    rank = min(round(WINDOW * FRAME_RATE), len(energies))
    reference = np.partition(energies, -rank)[-rank]
    loud = np.flatnonzero(energies >= reference * 10 ** (-decibels / 10))
    return (len(energies) - 1 - int(loud[-1])) / FRAME_RATE
