"""Features of nodes in a .npy file that is read where it lies: memory holds the rows that are asked for alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.foreign_errors import foreign_errors
from regard.data.text_files import refuse_pipe
from regard.errors import DataError

__all__ = ["FeatureFile"]

ROWS = 1 << 14  # read at a time where all are
Values = npt.NDArray[np.float32]


class FeatureFile:
    """The matrix (nodes, features) of a file. ``by_rows``: rows are divided by the sum of their magnitudes.

    DataError where the file is no .npy of plain numbers in rows, or shorter than its header says.
    """

    def __init__(self, path: Path, *, by_rows: bool = False) -> None:
        self.path, self.by_rows = path, by_rows
        refuse_pipe(path)
        with foreign_errors("the file is no .npy of plain numbers", path):
            found: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(found, np.memmap) or found.ndim != 2 or found.dtype.kind not in "fiu" or not min(found.shape):
            shape, dtype = getattr(found, "shape", "no array"), getattr(found, "dtype", "no numbers")
            raise DataError("features are numbers (nodes, features)", where=str(path), why=f"it has {shape}, {dtype}")
        if not found.flags.c_contiguous:
            help = "numpy.save(path, numpy.ascontiguousarray(x))"
            raise DataError("features lie column by column", where=str(path), why="rows are read", help=help)
        self._matrix = found
        self.nodes, self.features = found.shape

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
        target = np.lib.format.open_memmap(
            path, mode="w+", dtype=np.float32, shape=(self.nodes, self.features)
        )  # fmt: skip
        for number, block in enumerate(self.blocks()):
            target[number * ROWS : number * ROWS + len(block)] = block
        target.flush()
