"""Baseline of series of frames: logistic or ridge regression on frames at equal distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from regard.baselines.dense_baseline import DenseBaseline
from regard.core.baseline import Floats

PLACES = 16  # frames that are read of each series, interpolated


class FrameBaseline(DenseBaseline):
    """Frames at ``PLACES`` equal distances, and mean and deviation of each channel.

    A value has an attribute ``frames``, an array (frames, channels).
    """

    kind: ClassVar[str] = "frames"
    features_of: ClassVar[str] = f"{PLACES} frames at equal distances"

    def table(self, columns: Sequence[Sequence[Any]]) -> Floats:
        return np.stack([_statistics(series.frames) for series in columns[0]])


def _statistics(frames: npt.NDArray[Any]) -> Floats:
    """Return the features of a series: ((``PLACES`` + 2) · channels,)."""
    frames = np.asarray(frames, np.float64)
    if not len(frames):
        return np.zeros((PLACES + 2) * frames.shape[1])
    place = np.linspace(0, len(frames) - 1, PLACES)
    before = np.floor(place).astype(int)
    after, share = np.minimum(before + 1, len(frames) - 1), (place - before)[:, None]
    read = frames[before] * (1 - share) + frames[after] * share
    return np.concatenate([read.ravel(), frames.mean(0), frames.std(0)])
