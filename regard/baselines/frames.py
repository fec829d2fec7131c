"""Baseline of series of frames: logistic or ridge regression on frames at equal distances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from regard.baselines.linear import Sparse
from regard.baselines.linear_baseline import LinearBaseline

PLACES = 16  # frames that are read of each series, interpolated


class FrameBaseline(LinearBaseline):
    """Frames at ``PLACES`` equal distances, and mean and deviation of each channel, all standardized.

    A value has an attribute ``frames``, an array (frames, channels).
    """

    kind: ClassVar[str] = "frames"
    features_of: ClassVar[str] = f"{PLACES} frames at equal distances"

    def __init__(self) -> None:
        super().__init__()
        self.scale = np.zeros((2, 0))  # mean and deviation of each feature

    def learn_features(self, columns: Sequence[Sequence[Any]]) -> None:
        table = np.stack([_statistics(series.frames) for series in columns[0]])
        self.scale = np.stack([table.mean(0), table.std(0) + 1e-9])

    def features(self, columns: Sequence[Sequence[Any]]) -> Sparse:
        from scipy.sparse import csr_matrix

        width = self.scale.shape[1]
        table = np.array([_statistics(series.frames) for series in columns[0]]).reshape(len(columns[0]), width)
        return csr_matrix(np.clip((table - self.scale[0]) / self.scale[1], -9, 9))

    def saved_features(self) -> Mapping[str, npt.NDArray[Any]]:
        return {"scale": self.scale}

    def open_features(self, arrays: Mapping[str, npt.NDArray[Any]]) -> int:
        self.scale = arrays["scale"].astype(np.float64)
        if self.scale.ndim != 2 or len(self.scale) != 2 or not np.isfinite(self.scale).all():
            raise ValueError("the scale needs a finite mean and deviation of each feature")
        if not (self.scale[1] > 0).all():
            raise ValueError("the scale needs deviations above 0")
        return self.scale.shape[1]


def _statistics(frames: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the features of a series before they are standardized: ((``PLACES`` + 2) · channels,)."""
    frames = np.asarray(frames, np.float64)
    if not len(frames):
        return np.zeros((PLACES + 2) * frames.shape[1])
    place = np.linspace(0, len(frames) - 1, PLACES)
    before = np.floor(place).astype(int)
    after, share = np.minimum(before + 1, len(frames) - 1), (place - before)[:, None]
    read = frames[before] * (1 - share) + frames[after] * share
    return np.concatenate([read.ravel(), frames.mean(0), frames.std(0)])
