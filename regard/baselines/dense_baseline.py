"""Base of linear baselines whose features are a dense table of standardized numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from regard.baselines.linear import Sparse
from regard.baselines.linear_baseline import LinearBaseline
from regard.core.baseline import Floats

LARGEST = 9.0  # absolute value of a standardized feature


class DenseBaseline(LinearBaseline):
    """A linear baseline of the numbers of ``table``, standardized by the training data and clipped."""

    strengths: ClassVar[tuple[float, ...]] = (0.3, 3.0, 30.0, 300.0)

    def __init__(self) -> None:
        super().__init__()
        self.scale = np.zeros((2, 0))  # mean and deviation of each feature

    def table(self, columns: Sequence[Sequence[Any]]) -> Floats:
        """Return (rows, numbers) of values."""
        raise NotImplementedError

    def learn_features(self, columns: Sequence[Sequence[Any]]) -> None:
        table = self.table(columns)
        self.scale = np.stack([table.mean(0), table.std(0) + 1e-9])

    def features(self, columns: Sequence[Sequence[Any]]) -> Sparse:
        from scipy.sparse import csr_matrix

        return csr_matrix(self.standardized(columns))

    def standardized(self, columns: Sequence[Sequence[Any]]) -> Floats:
        """Return (rows, numbers); ValueError if the values do not have the numbers of the training data."""
        if not len(columns[0]):
            return np.zeros((0, self.scale.shape[1]))
        return np.asarray(np.clip((self.table(columns) - self.scale[0]) / self.scale[1], -LARGEST, LARGEST))

    def saved_features(self) -> Mapping[str, npt.NDArray[Any]]:
        return {"scale": self.scale}

    def open_features(self, arrays: Mapping[str, npt.NDArray[Any]]) -> int:
        self.scale = arrays["scale"].astype(np.float64)
        if self.scale.ndim != 2 or len(self.scale) != 2 or not np.isfinite(self.scale).all():
            raise ValueError("the scale needs a finite mean and deviation of each feature")
        if not (self.scale[1] > 0).all():
            raise ValueError("the scale needs deviations above 0")
        return self.scale.shape[1]
