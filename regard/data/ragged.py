"""Ragged arrays: rows of different lengths, one after another, on disk and read through a memory map."""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from regard.data.foreign_errors import foreign_errors
from regard.data.text_files import refuse_pipe
from regard.errors import DataError

CHUNK = 1 << 20  # positions or offsets checked at a time
OFFSETS = np.dtype("<i8")
Values = npt.NDArray[Any]
Offsets = npt.NDArray[np.int64]
Count = Annotated[int, Field(ge=0, lt=1 << 60)]
# A closed list: for some other types, NumPy dereferences addresses stored in the file.
NumberType = Literal["|b1", "|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8"]


class Checked(BaseModel):
    """A part of a head, which may come from others: types are not converted, and unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class ArrayHead(Checked):
    """Type, sizes and digest of an array on disk.

    Attributes:
        dtype: of the values, as ``numpy.dtype.str``.
        shape: of the value at one position.
        positions: the number of values over all rows.
        rows: the number of rows.
        sha256: of the values, followed by that of the offsets if they have a file. Empty in earlier heads.
    """

    dtype: NumberType
    shape: Annotated[tuple[Annotated[int, Field(ge=1, lt=1 << 31)], ...], Field(strict=False, max_length=8)] = ()
    positions: Count
    rows: Count = 1
    sha256: str = ""


class Ragged:
    """Rows of different lengths; row i is ``values[offsets[i] : offsets[i + 1]]``.

    Attributes:
        values: (positions, *shape); a read-only view of the file if the array was opened.
        offsets: (rows + 1,) int64, rising from 0 to the number of positions.
    """

    def __init__(self, values: Values, offsets: Offsets, *, path: Path | None = None, head: ArrayHead | None = None):
        """Initialize an array in memory; ``open`` checks arrays on disk and adds their ``path`` and ``head``."""
        self.values, self.offsets, self.path, self.head = values, offsets, path, head

    @classmethod
    def of_lengths(cls, values: Values, lengths: npt.NDArray[np.integer]) -> Self:
        """Return rows of these lengths, whose values are concatenated."""
        return cls(values, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))

    @classmethod
    def of_rows(cls, rows: Sequence[Values]) -> Self:
        """Return rows in memory; at least one is required."""
        return cls.of_lengths(np.concatenate(rows), np.fromiter(map(len, rows), np.int64, len(rows)))

    @classmethod
    def open(
        cls,
        values: Path,
        offsets: Path | None,
        head: ArrayHead,
        *,
        dtypes: Collection[str],
        shape: tuple[int, ...] = (),
    ) -> Self:
        """Map an array that ``RaggedWriter`` wrote; its offsets are read once, its values are not.

        Args:
            values: the file of the values.
            offsets: the file of the offsets; None if the array is one row.
            head: the expected contents of the files.
            dtypes: the types that the reader supports.
            shape: the shape that the reader expects at each position.

        Raises:
            DataError: the head has another type or shape, a file is missing or has another size, or the offsets do not
                rise from 0 to ``head.positions``.
        """
        dtype, count = np.dtype(head.dtype), head.positions
        if head.dtype not in dtypes or head.shape != shape or (offsets is None and head.rows != 1):
            raise damaged(values, f"its head states {head.rows} rows of {head.dtype} {list(head.shape)}")
        _require_size(values, count * math.prod(shape) * dtype.itemsize)
        if offsets is None:
            return cls(_map(values, dtype, (count, *shape)), np.array([0, count], OFFSETS), path=values, head=head)
        _require_size(offsets, (head.rows + 1) * OFFSETS.itemsize)
        bounds = _map(offsets, OFFSETS, (head.rows + 1,))
        if not _rises(bounds, count):
            raise damaged(offsets, f"its offsets do not rise from 0 to {count}")
        return cls(_map(values, dtype, (count, *shape)), bounds, path=values, head=head)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Values:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[Values]:
        return (self[index] for index in range(len(self)))

    @property
    def lengths(self) -> Offsets:
        """Number of positions of each row, (rows,)."""
        return np.diff(self.offsets)

    @property
    def longest(self) -> int:
        """Number of positions of the longest row, computed in constant memory."""
        return max((int(np.diff(part).max(initial=0)) for part in _overlapping(self.offsets)), default=0)

    def select(self, chosen: npt.NDArray[np.bool_]) -> Ragged:
        """Return the rows of a mask (rows,)."""
        return Ragged.of_lengths(self.values[np.repeat(chosen, self.lengths)], self.lengths[chosen])

    def truncate(self, limit: int) -> Ragged:
        """Return the first ``limit`` positions of each row."""
        position = np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths)
        return Ragged.of_lengths(self.values[position < limit], np.minimum(self.lengths, limit))

    def require_intact(self, limit: int | None = None) -> None:
        """Verify an opened array by reading it once, in constant memory.

        Args:
            limit: exclusive upper bound of the values; None for no bound.

        Raises:
            DataError: a value is not below ``limit``, or the digest differs from the head.
        """
        assert self.path is not None and self.head is not None
        digests = []
        for array in (self.values, self.offsets) if len(self.head.sha256) > 64 else (self.values,):
            digest = hashlib.sha256()
            for begin in range(0, len(array), CHUNK):
                part = array[begin : begin + CHUNK]
                if limit is not None and array is self.values and int(part.max()) >= limit:
                    raise damaged(self.path, f"it contains the token {part.max()}; the vocabulary has {limit}")
                if self.head.sha256:
                    digest.update(np.ascontiguousarray(part).data)
            digests.append(digest.hexdigest())
        if self.head.sha256 and "".join(digests) != self.head.sha256:
            raise damaged(self.path, "its digest differs from the one in its head")


class RaggedWriter:
    """Writer that appends rows to the files of a new array, in constant memory; a context manager.

    Writes are not atomic: use a folder that ``prepared.replacing_folder`` publishes.
    """

    def __init__(self, values: Path, offsets: Path | None, dtype: NumberType, shape: tuple[int, ...] = ()) -> None:
        """Open the files; arguments as in ``Ragged.open``. If ``offsets`` is None, all parts become one row."""
        self.dtype, self.shape, self.positions, self.rows = np.dtype(dtype), shape, 0, 0
        self._files = [path.open("wb") for path in (values, offsets) if path is not None]
        self._digests = [hashlib.sha256() for _ in self._files]
        if offsets is not None:
            self._write(1, np.zeros(1, OFFSETS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files:
            file.close()

    def append(self, part: Ragged) -> None:
        """Append the rows of another array; their values are converted to ``dtype``."""
        self._write(0, part.values.astype(self.dtype, copy=False))
        if len(self._files) > 1:
            self._write(1, (self.positions + part.offsets[1:]).astype(OFFSETS))
        self.positions, self.rows = self.positions + len(part.values), self.rows + len(part)

    def append_values(self, values: Values) -> None:
        """Append one row; if the array is one row, extend it."""
        self.append(Ragged(values, np.array([0, len(values)])))

    @property
    def head(self) -> ArrayHead:
        """The head of the rows written so far."""
        dtype: Any = self.dtype.str
        digest = "".join(digest.hexdigest() for digest in self._digests)
        rows = self.rows if len(self._files) > 1 else 1
        return ArrayHead(dtype=dtype, shape=self.shape, positions=self.positions, rows=rows, sha256=digest)

    def _write(self, file: int, array: Values) -> None:
        data = np.ascontiguousarray(array).tobytes()
        self._digests[file].update(data)
        self._files[file].write(data)


def map_npy(path: Path) -> Values:
    """Map the numbers (rows, columns) of a ``.npy`` file without reading them. DataError for other files."""
    refuse_pipe(path)
    with foreign_errors("the file is not a .npy of plain numbers", path):
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.memmap) or array.ndim != 2 or array.dtype.kind not in "fiu" or not min(array.shape):
        shape, dtype = getattr(array, "shape", "no array"), getattr(array, "dtype", "no numbers")
        raise DataError("features must be numbers (nodes, features)", where=str(path), why=f"it has {shape}, {dtype}")
    if not array.flags.c_contiguous:
        help = "numpy.save(path, numpy.ascontiguousarray(x))"
        raise DataError("features are stored in column order", where=str(path), why="row order is required", help=help)
    return array


def damaged(path: Path, why: str) -> DataError:
    """Return the error for a file of a prepared folder that does not match its head."""
    help = f"delete the folder, then prepare it again: rm -r {shlex.quote(str(path.parent))}"
    return DataError("the prepared data are damaged", where=str(path), why=why, help=help)


def _require_size(path: Path, size: int) -> None:
    if not path.is_file():
        raise damaged(path, "the file is missing")
    if (actual := path.stat().st_size) != size:
        raise damaged(path, f"it has {actual} bytes, not {size}")


def _map(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Values:
    if shape[0] == 0:
        return np.empty(shape, dtype)
    # A plain view of the map: indexing a np.memmap itself is several times slower.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=shape))


def _overlapping(offsets: Offsets) -> Iterator[Offsets]:
    """Yield chunks of the offsets; each begins with the last offset of the previous one."""
    return (offsets[begin : begin + CHUNK + 1] for begin in range(0, len(offsets), CHUNK))


def _rises(offsets: Offsets, positions: int) -> bool:
    # Compare instead of subtracting: differences of distant numbers may overflow.
    ends = offsets[0] == 0 and offsets[-1] == positions
    return bool(ends) and all((part[1:] >= part[:-1]).all() for part in _overlapping(offsets))
