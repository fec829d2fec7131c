"""Files that may be gzipped, read as byte streams; files that unpack out of proportion to their size are rejected."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from typing import cast

from regard.errors import DataError

RATIO = 100  # unpacked bytes per packed byte: text compresses 3 to 20 times
FREE = 1 << 26  # unpacked bytes that are always allowed
LINE_RATIO, FREE_LINE = 20, 1 << 24  # the same for one line


def is_gzipped(path: Path) -> bool:
    """Return whether a name ends in ``.gz``, in any case."""
    return path.name.lower().endswith(".gz")


def open_unpacked(
    path: Path, *, free: int = FREE, ratio: int = RATIO, max_size: int = sys.maxsize
) -> io.BufferedReader:
    """Open a file for reading; a ``.gz`` is unpacked.

    Reading raises DataError beyond ``max_size`` unpacked bytes, and beyond both ``free`` bytes and ``ratio`` times the
    packed size. It also raises the exceptions of ``gzip``: read within ``foreign_errors``.
    """
    if not is_gzipped(path):
        return path.open("rb")
    packed = gzip.open(path, "rb")
    limit = min(max_size, max(free, ratio * path.stat().st_size))
    return io.BufferedReader(cast(io.RawIOBase, _Bounded(packed, path, limit)))


def longest_line(path: Path) -> int:
    """Return the maximum number of bytes of a line: parsing a JSON line takes up to 24 times its length."""
    return max(FREE_LINE, LINE_RATIO * path.stat().st_size) if is_gzipped(path) else sys.maxsize


class _Bounded(io.RawIOBase):
    """Unpacked bytes of a gzip file up to a limit on the position, so seeking back is free."""

    def __init__(self, packed: gzip.GzipFile, path: Path, limit: int) -> None:
        self._packed, self._path, self._limit = packed, path, limit

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        count = cast(io.RawIOBase, self._packed).readinto(buffer)
        self._require_bounded()
        return count or 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        position = self._packed.seek(offset, whence)
        self._require_bounded()
        return position

    def close(self) -> None:
        self._packed.close()
        super().close()

    def _require_bounded(self) -> None:
        if self._packed.tell() > self._limit:
            raise DataError(
                f"the file unpacks to more than {self._limit:,} bytes",
                where=str(self._path),
                why=f"its packed size is {self._path.stat().st_size:,} bytes; text compresses 3 to 20 times",
                help=f"gunzip {self._path}, then use the unpacked file",
            )
