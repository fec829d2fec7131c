"""Files that may be gzipped, read as a stream of bytes: what unpacks out of proportion to the file is refused."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from typing import cast

from regard.errors import DataError

RATIO = 100  # unpacked bytes for each packed one: text packs 3 to 20 times smaller
FREE = 1 << 26  # unpacked bytes that any file may have
LINE_RATIO, FREE_LINE = 20, 1 << 24  # the same for one line


def is_gzipped(path: Path) -> bool:
    """Return whether a name ends in ``.gz``, in any case."""
    return path.name.lower().endswith(".gz")


def open_unpacked(path: Path, *, free: int = FREE, ratio: int = RATIO, most: int = sys.maxsize) -> io.BufferedReader:
    """Open a file for reading, of a ``.gz`` what it unpacks to.

    Reading raises DataError beyond ``most`` unpacked bytes, and beyond ``free`` and ``ratio`` for each packed one; and
    what ``gzip`` raises: read within ``foreign_errors``.
    """
    if not is_gzipped(path):
        return path.open("rb")
    packed = gzip.open(path, "rb")
    limit = min(most, max(free, ratio * path.stat().st_size))
    return io.BufferedReader(cast(io.RawIOBase, _Bounded(packed, path, limit)))


def longest_line(path: Path) -> int:
    """Return the bytes that a line may have: a line of JSON takes up to 24 times its length when it is parsed."""
    return max(FREE_LINE, LINE_RATIO * path.stat().st_size) if is_gzipped(path) else sys.maxsize


class _Bounded(io.RawIOBase):
    """Unpacked bytes of a gzip file up to a limit; the limit holds for the place reached, so seeking back is free."""

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
        place = self._packed.seek(offset, whence)
        self._require_bounded()
        return place

    def tell(self) -> int:
        return self._packed.tell()

    def close(self) -> None:
        self._packed.close()
        super().close()

    def _require_bounded(self) -> None:
        if self._packed.tell() > self._limit:
            raise DataError(
                f"the file unpacks to more than {self._limit:,} bytes",
                where=str(self._path),
                why=f"it has {self._path.stat().st_size:,} bytes itself; text packs 3 to 20 times smaller",
                help=f"gunzip {self._path}, and name the unpacked file",
            )
