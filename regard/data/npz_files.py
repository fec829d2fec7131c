"""Arrays of .npz files, in memory in proportion to the file: arrays of equal numbers pack a thousandfold."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.foreign_errors import foreign_errors
from regard.data.text_files import refuse_pipe
from regard.errors import DataError

INVALID = "the file is no .npz of plain arrays"
MOST = 1 << 32  # bytes of all arrays of a file
RATIO, FREE = 100, 1 << 28  # of a packed file: bytes for each of its own, and those that any may have
PER_NUMBER = 32  # bytes that reading takes beside a number of most arrays, some of which become int64 and are sorted
DENSE, PER_ROW = "x", 100  # the array of which only what is not 0 is kept, and bytes for each of its rows
PER_ENTRY = 40  # bytes for each number of it that is kept: row, column, value, and copies of them
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy writes; others take memory by what the file says


def array_names(path: Path) -> tuple[str, ...]:
    """Return the names of the arrays of a file, without reading any. DataError for a file of another format."""
    refuse_pipe(path)
    with foreign_errors(INVALID, path), zipfile.ZipFile(path) as packed:
        return tuple(name.removesuffix(".npy") for name in packed.namelist())


def read_arrays(path: Path, only: str | None = None) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file, plain numbers alone; or the one of a name.

    Raises:
        DataError: The file is no .npz of plain arrays, or reading it takes more memory than a file of its size may.
    """
    refuse_pipe(path)
    with foreign_errors(INVALID, path):
        with zipfile.ZipFile(path) as packed:
            sizes = [_sizes(packed, member) for member in packed.infolist()]
            _require_bounded(sum(size for size, _ in sizes), sum(cost for _, cost in sizes), path)
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files if only in (None, name)}


def require_sparse(x: npt.NDArray[Any], path: Path) -> None:
    """DataError where the entries of a dense array that are not 0 take more memory than a file of its size may."""
    size = PER_ENTRY * int(np.count_nonzero(x))
    _require_bounded(x.nbytes, size, path)


def _sizes(packed: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[int, int]:
    """Bytes of an array, and bytes that reading it takes.

    Raises ValueError where its header says another size than its bytes have: NumPy takes memory by the header.
    """
    if member.compress_type not in METHODS:
        raise ValueError(f"{member.filename} is packed by a method that numpy.savez does not use")
    with packed.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in HEADERS:
            raise ValueError(f"{member.filename} is of version {version}")
        shape, _, dtype = HEADERS[version](file)
        count = math.prod(shape)
        size = count * dtype.itemsize
        if min(shape, default=0) < 0 or file.tell() + size != member.file_size:
            raise ValueError(f"the header of {member.filename} says {size:,} bytes, and it has {member.file_size:,}")
    rows = shape[0] if shape else 1
    own = PER_ROW * rows if member.filename == f"{DENSE}.npy" else PER_NUMBER * count
    return size, size + own


def _require_bounded(size: int, cost: int, path: Path) -> None:
    own = path.stat().st_size
    limit = max(RATIO * own, FREE)
    if size > MOST or cost > limit:
        raise DataError(
            "the arrays of the file are too large", where=str(path),
            why=f"it has {own:,} bytes, its arrays {size:,}, reading them takes {cost:,}, and the limit is "
            f"{min(limit, MOST):,}",
            help="save features as a .npy, which is read where it lies (data.….features), or as a matrix in compressed "
            "rows, and arrays by numpy.savez, which packs nothing; see docs/how-to/graphs.md",
        )  # fmt: skip
