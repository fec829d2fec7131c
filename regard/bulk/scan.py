"""Division of input files into blocks: byte ranges that end at line ends, counted and hashed in one pass.

For a ``.gz`` the bytes are those of the unpacked text, in which every block after the first must be sought.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from regard.data.foreign_errors import foreign_errors
from regard.data.text_files import open_bytes, read_raw_lines, refuse_pipe
from regard.errors import DataError

PIECE = 1 << 20  # bytes read at a time
DAMAGED = "a gzip file is truncated or damaged"
LARGEST = 1 << 26  # bytes after which a block ends at the next line


class Block(NamedTuple):
    """Lines of one input; ``first`` is the number of its first line, from 1."""

    number: int  # of all blocks of the job, from 0
    input: int
    first: int
    lines: int
    start: int
    end: int
    sha256: str


def require_readable(path: Path) -> None:
    """Raise DataError or StorageError unless a path is a file that can be read several times."""
    refuse_pipe(path)
    next(read_raw_lines(path), None)


def blocks_of(path: Path, lines: int, advance: Callable[[int], None]) -> Iterator[tuple[int, int, str]]:
    """Yield the number of lines, the end and the sha256 of each block.

    Args:
        path: input file.
        lines: of a block.
        advance: called with the number of bytes read.
    """
    digest, open_lines, offset, cut = hashlib.sha256(), 0, 0, 0
    last = b""
    for piece in _pieces(path):
        ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n")) + 1
        done, start = 0, 0
        while len(ends) - done + open_lines >= lines or (offset + len(piece) - cut > LARGEST and done < len(ends)):
            count = min(lines - open_lines, len(ends) - done)
            done += count
            digest.update(piece[start : ends[done - 1]])
            start = int(ends[done - 1])
            yield open_lines + count, offset + start, digest.hexdigest()
            digest, open_lines, cut = hashlib.sha256(), 0, offset + start
        digest.update(piece[start:])
        open_lines += len(ends) - done
        offset, last = offset + len(piece), piece[-1:]
        advance(len(piece))
    if offset > cut:
        yield open_lines + (last != b"\n"), offset, digest.hexdigest()


def _pieces(path: Path) -> Iterator[bytes]:
    with foreign_errors(DAMAGED, path), open_bytes(path) as file:
        while piece := file.read(PIECE):
            yield piece


class BlockReader:
    """Reader of the lines of blocks. It keeps one file open: blocks of a ``.gz`` read in order are unpacked once."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths, self._open = paths, -1
        self._held: BinaryIO = BytesIO()

    def __enter__(self) -> BlockReader:
        return self

    def __exit__(self, *raised: object) -> None:
        self._held.close()

    def lines(self, block: Block) -> list[bytes]:
        """Return the lines of a block without their ends. Raises DataError if it has changed since the job began."""
        path = self._paths[block.input]
        with foreign_errors(DAMAGED, path):
            if self._open != block.input:
                self._held.close()
                self._held, self._open = open_bytes(path), block.input
            self._held.seek(block.start)
            data = self._held.read(block.end - block.start)
        if hashlib.sha256(data).hexdigest() != block.sha256:
            raise DataError(
                "the input has changed since this job began",
                where=f"{path}:{block.first}",
                help="restore it, or name another output folder",
            )
        if block.start == 0:
            data = data.removeprefix(codecs.BOM_UTF8)
        return [line.removesuffix(b"\r") for line in data.removesuffix(b"\n").split(b"\n")]
