"""Random changes of frames in training: shifts in time, warps of frequency, and masks (SpecAugment)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from regard.data.log_mel import corner_frequencies, mel
from regard.data.sound_options import SoundOptions

Frames = npt.NDArray[np.float32]

KNEE = 0.6  # frequencies up to this share of half the rate are multiplied by the factor of a warp


def augment_frames(frames: Frames, mean: Frames, options: SoundOptions, random: np.random.Generator) -> Frames:
    """Return changed frames of the same shape; the argument is unchanged.

    1. A shift of up to ``shift`` frames, as likely to either side; frames that enter are the mean.
    2. Frequencies are multiplied by a factor from U[1 − warp, 1 + warp] (``warped``).
    3. ``channel_masks`` times: f ~ U{0 … channel_width} channels, from c ~ U{0 … channels − f}, are the mean.
    4. ``time_masks`` times: t ~ U{0 … min(time_width, ⌊time_share · frames⌋)} frames, drawn likewise, are the mean.

    Source: Park et al. 2019, §2. Differs from the paper: no time warping. Warps of frequency: Jaitly & Hinton 2013.

    Args:
        frames: (frames, channels).
        mean: (channels,) of the training data; 0 for standardized frames.
        options: the options of training.
        random: the draws.
    """
    (length, channels), moves = frames.shape, options.shift
    changed = shifted(frames, int(random.integers(-moves, moves + 1)), mean) if moves else frames.copy()
    if options.warp:
        changed = warped(changed, 1 + options.warp * random.uniform(-1, 1), options.rate)
    for _ in range(options.channel_masks):
        first, end = _drawn_range(channels, min(options.channel_width, channels), random)
        changed[:, first:end] = mean[first:end]
    for _ in range(options.time_masks):
        first, end = _drawn_range(length, min(options.time_width, int(options.time_share * length)), random)
        changed[first:end] = mean
    return changed


def shifted(frames: Frames, steps: int, mean: Frames) -> Frames:
    """Return frames moved to the right by ``steps`` frames, or to the left if it is negative; the mean enters."""
    moved, count = np.broadcast_to(mean, frames.shape).astype(frames.dtype), len(frames)
    if abs(steps) < count:
        moved[max(steps, 0) : count + min(steps, 0)] = frames[max(-steps, 0) : count - max(steps, 0)]
    return moved


def warped(frames: Frames, factor: float, rate: int) -> Frames:
    """Return log-mel frames whose channel at frequency f has the value that was at g(f).

        g(f) = factor · f up to the knee KNEE · rate / 2 · min(1, 1 / factor); above it a line to g(rate / 2) = rate / 2

    Values between the centers of two channels are interpolated in mel. Source: Jaitly & Hinton 2013, §3, with the knee
    at 4,800 Hz of 8,000. Differs from the paper: channels of the log-mel frames are interpolated, and not the filters
    moved: a file of frames suffices.
    """
    half, channels = rate / 2, frames.shape[1]
    centers = corner_frequencies(rate, channels)[1:-1]
    knee = KNEE * half * min(1.0, 1 / factor)
    sources = np.interp(centers, [0, knee, half], [0, factor * knee, half])
    place = np.clip(mel(sources) / mel(half) * (channels + 1) - 1, 0, channels - 1)
    first = np.minimum(place.astype(np.int64), channels - 2)
    share = (place - first).astype(np.float32)
    return np.asarray((1 - share) * frames[:, first] + share * frames[:, first + 1], np.float32)


def _drawn_range(size: int, widest: int, random: np.random.Generator) -> tuple[int, int]:
    """Return the first and the end index of a range of uniform width and place."""
    width = int(random.integers(0, widest + 1))
    first = int(random.integers(0, size - width + 1))
    return first, first + width
