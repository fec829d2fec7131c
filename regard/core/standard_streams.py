"""Standard streams that raise clear errors when they are full, closed, or no longer read."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from regard.errors import StorageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def guard_streams() -> None:
    """Replace the standard streams of this process; called once, before any input or output.

    A failed write to standard output raises StorageError, once; a closed pipe still raises BrokenPipeError. Failed
    writes to standard error are dropped, because messages must never end the work that they report on. A stream that
    was closed keeps its descriptor, to prevent that a file opened later takes it and receives printed text.
    """
    for number, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        if not _is_open(number):  # opened in the opposite direction: its use then fails as expected
            os.set_inheritable(os.open(os.devnull, flags), True)  # open takes the lowest free number, which is this one
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Messages(2, "w", closefd=False), sys.stderr, unbuffered=True)


def flush_output() -> None:
    """Flush standard output; after a failure was raised once, further output is dropped."""
    if sys.stdout is not None:
        sys.stdout.flush()


class _Output(io.FileIO):
    """Standard output that fails once and then drops further output."""

    _failed = False

    def write(self, data: ReadableBuffer, /) -> int:
        size = memoryview(data).nbytes
        if self._failed:
            return size
        try:
            return super().write(data)
        except BrokenPipeError:
            self._failed = True
            raise
        except OSError as error:
            self._failed = True
            raise _unwritable(error) from error


class _Messages(io.FileIO):
    """Standard error that drops failed writes."""

    def write(self, data: ReadableBuffer, /) -> int:
        with suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _text(raw: io.FileIO, before: TextIO | None, *, unbuffered: bool = False) -> TextIO:
    """Wrap a stream as Python does, but escape characters that the encoding lacks instead of failing."""
    encoding = before.encoding if before is not None else "utf-8"
    lines = unbuffered or raw.isatty()
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=lines,
        write_through=unbuffered,
    )  # fmt: skip


def _unwritable(error: OSError) -> StorageError:
    closed = error.errno == errno.EBADF
    return StorageError(
        "cannot write to standard output",
        why="it is closed" if closed else error.strerror or str(error),
        help="redirect it to a writable file, a pipe or the terminal",
    )
