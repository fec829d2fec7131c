"""Baseline of images: logistic or ridge regression on their pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from regard.baselines.dense_baseline import DenseBaseline
from regard.core.baseline import Floats
from regard.data.image_geometry import resized

SIDE = 16  # maximum height and width of the pixels that are read; larger images are made smaller


class PixelBaseline(DenseBaseline):
    """The pixels of images of one size. A value has an attribute ``pixels``, an array (height, width, channels)."""

    kind: ClassVar[str] = "pixels"
    features_of: ClassVar[str] = f"up to {SIDE} × {SIDE} pixels"

    def table(self, columns: Sequence[Sequence[Any]]) -> Floats:
        return np.stack([_small(picture.pixels) for picture in columns[0]]).astype(np.float64)


def _small(pixels: Any) -> Any:
    height, width, _ = pixels.shape
    small = resized(pixels, min(height, SIDE), min(width, SIDE)) if max(height, width) > SIDE else pixels
    return small.ravel()
