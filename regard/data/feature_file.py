"""Node features in a memory-mapped .npy file: only the requested rows are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.data.ragged import map_npy
from regard.errors import DataError

ROWS = 1 << 14  # read at a time when all rows are read
Values = npt.NDArray[np.float32]


class FeatureFile:
    """The matrix (nodes, features) of a file. With ``by_rows``, each row is divided by the sum of its magnitudes.

    DataError if the file is not a .npy with rows of plain numbers, or is shorter than its header states.
    """

    def __init__(self, path: Path, *, by_rows: bool = False) -> None:
        self.path, self.by_rows = path, by_rows
        self._matrix = map_npy(path)
        self.nodes, self.features = self._matrix.shape

    def rows(self, nodes: npt.NDArray[np.int64] | slice) -> Values:
        """Return the features of some nodes, in their order."""
        with np.errstate(over="ignore"):  # ``blocks`` reports values beyond float32
            values = np.asarray(self._matrix[nodes], np.float32)
        if not self.by_rows:
            return np.array(values)
        total = np.abs(values).sum(1, keepdims=True, dtype=np.float64)
        return (values / np.where(total == 0, 1, total)).astype(np.float32)

    def blocks(self) -> Iterator[Values]:
        """Yield all rows in blocks of ``ROWS``. DataError for a value that is not finite in float32."""
        for begin in range(0, self.nodes, ROWS):
            block = self.rows(slice(begin, begin + ROWS))
            if not np.isfinite(block).all():
                row = begin + int(np.flatnonzero(~np.isfinite(block).all(1))[0])
                why = "or is too large for float32"
                raise DataError(f"a feature of node {row} is not a finite number", where=str(self.path), why=why)
            yield block

    def entries(self) -> tuple[npt.NDArray[np.int64], Values]:
        """Return the (node, feature) indices of all nonzero values, and these values. Loads the whole matrix."""
        matrix = np.concatenate(list(self.blocks()))
        indices = np.stack(np.nonzero(matrix)).astype(np.int64)
        return indices, matrix[indices[0], indices[1]]

    def copy(self, path: Path) -> None:
        """Write the features to another file, in float32."""
        header = {"descr": "<f4", "fortran_order": False, "shape": (self.nodes, self.features)}
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for block in self.blocks():
                file.write(block.tobytes())
