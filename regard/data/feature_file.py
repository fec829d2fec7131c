"""Features of nodes in a .npy file that is read where it lies: memory holds the rows that are asked for alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.data.ragged import map_npy
from regard.errors import DataError

ROWS = 1 << 14  # read at a time where all are
Values = npt.NDArray[np.float32]


class FeatureFile:
    """The matrix (nodes, features) of a file. ``by_rows``: rows are divided by the sum of their magnitudes.

    DataError where the file is no .npy of plain numbers in rows, or shorter than its header says.
    """

    def __init__(self, path: Path, *, by_rows: bool = False) -> None:
        self.path, self.by_rows = path, by_rows
        self._matrix = map_npy(path)
        self.nodes, self.features = self._matrix.shape

    def rows(self, nodes: npt.NDArray[np.int64] | slice) -> Values:
        """The features of some nodes, in their order."""
        with np.errstate(over="ignore"):  # what is too large for float32 is told by ``blocks``
            found = np.asarray(self._matrix[nodes], np.float32)
        if not self.by_rows:
            return np.array(found)
        total = np.abs(found).sum(1, keepdims=True, dtype=np.float64)
        return (found / np.where(total == 0, 1, total)).astype(np.float32)

    def blocks(self) -> Iterator[Values]:
        """All rows, so many at a time. DataError for one that is no finite number."""
        for begin in range(0, self.nodes, ROWS):
            found = self.rows(slice(begin, begin + ROWS))
            if not np.isfinite(found).all():
                row = begin + int(np.flatnonzero(~np.isfinite(found).all(1))[0])
                why = "or too large for float32"
                raise DataError(f"a feature of node {row} is no finite number", where=str(self.path), why=why)
            yield found

    def entries(self) -> tuple[npt.NDArray[np.int64], Values]:
        """Node and feature of all that is not 0, and its value: the whole in memory."""
        found = np.concatenate(list(self.blocks()))
        places = np.stack(np.nonzero(found)).astype(np.int64)
        return places, found[places[0], places[1]]

    def copy(self, path: Path) -> None:
        """Write the features as they are read, in float32."""
        header = {"descr": "<f4", "fortran_order": False, "shape": (self.nodes, self.features)}
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for block in self.blocks():
                file.write(block.tobytes())
