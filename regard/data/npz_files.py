"""Arrays of .npz files, with memory bounded by the file size: arrays of equal numbers compress a thousandfold."""

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

INVALID = "the file is not a .npz of plain arrays"
MAX_BYTES = 1 << 32  # bytes of all arrays of a file
RATIO, FREE = 100, 1 << 28  # read limits: bytes per packed byte, and bytes always allowed
PER_NUMBER = 32  # extra bytes per number, to convert and sort
DENSE, PER_ROW = "x", 100  # the array that is kept sparse, and extra bytes for each of its rows
PER_ENTRY = 40  # bytes for each of its nonzero values: row, column, value, and copies of them
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # used by NumPy; the memory of others is not bounded


def array_names(path: Path) -> tuple[str, ...]:
    """Return the names of the arrays of a file without reading them. DataError for a file of another format."""
    refuse_pipe(path)
    with foreign_errors(INVALID, path), zipfile.ZipFile(path) as packed:
        return tuple(name.removesuffix(".npy") for name in packed.namelist())


def read_arrays(path: Path, only: str | None = None) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a file, which must be plain numbers; with ``only``, the array of that name.

    Raises:
        DataError: The file is not a .npz of plain arrays, or reading it needs more memory than allowed for its size.
    """
    refuse_pipe(path)
    with foreign_errors(INVALID, path):
        with zipfile.ZipFile(path) as packed:
            sizes = [_sizes(packed, member) for member in packed.infolist()]
            _require_bounded(sum(size for size, _ in sizes), sum(cost for _, cost in sizes), path)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files if only in (None, name)}


def require_sparse(x: npt.NDArray[Any], path: Path) -> None:
    """Raise DataError if the nonzero entries of a dense array need more memory than allowed for the file's size."""
    size = PER_ENTRY * int(np.count_nonzero(x))
    _require_bounded(x.nbytes, size, path)


def _sizes(packed: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[int, int]:
    """Return the bytes of an array, and the bytes that reading it takes.

    Raises ValueError if its header states another size than the data has: NumPy allocates by the header.
    """
    if member.compress_type not in METHODS:
        raise ValueError(f"{member.filename} uses a compression method that numpy.savez does not use")
    with packed.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in HEADERS:
            raise ValueError(f"{member.filename} has the unsupported version {version}")
        shape, _, dtype = HEADERS[version](file)
        count = math.prod(shape)
        size = count * dtype.itemsize
        if min(shape, default=0) < 0 or file.tell() + size != member.file_size:
            raise ValueError(f"the header of {member.filename} states {size:,} bytes, it has {member.file_size:,}")
    rows = shape[0] if shape else 1
    own = PER_ROW * rows if member.filename == f"{DENSE}.npy" else PER_NUMBER * count
    return size, size + own


def _require_bounded(size: int, cost: int, path: Path) -> None:
    own = path.stat().st_size
    limit = max(RATIO * own, FREE)
    if size > MAX_BYTES or cost > limit:
        raise DataError(
            "the arrays of the file are too large", where=str(path),
            why=f"the file has {own:,} bytes, the arrays {size:,}; reading takes {cost:,}, and the limit is "
            f"{min(limit, MAX_BYTES):,}",
            help="save features as a memory-mapped .npy (data.….features) or in compressed sparse rows, "
            "and arrays with numpy.savez, which does not compress; see docs/how-to/graphs.md",
        )  # fmt: skip
