"""Lines from a file or a pipe, grouped into chunks: large ones while input is waiting, small ones when it pauses."""

from __future__ import annotations

import codecs
import errno
import os
import select
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from regard.errors import ConfigError, DataError, RegardError

PLACES = 1024  # names of the last rows that are kept for error messages
BLOCK = 1 << 16  # bytes per read: the default capacity of a pipe


class IncomingLines:
    """Lines of a stream, as bytes without line ends.

    Args:
        read: waits for bytes and returns them; empty at the end of the stream.
        waiting: returns whether ``read`` would return immediately.
    """

    def __init__(self, read: Callable[[], bytes], waiting: Callable[[], bool]) -> None:
        self._read, self._waiting = read, waiting
        self._lines: deque[bytes] = deque()
        self._partial = b""  # a line whose end has not arrived yet
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        while True:
            while not self._lines and not self._ended:
                self._take()
            if not self._lines:
                return
            yield self._lines.popleft()

    def ready(self) -> bool:
        """Return whether the next complete line, or the end of the stream, is available without waiting."""
        while not self._lines and not self._ended:
            if not self._waiting():
                return False
            self._take()
        return True

    def _take(self) -> None:
        data = self._read()
        whole, self._ended = self._partial + data, not data
        *lines, self._partial = whole.split(b"\n")
        if self._ended and self._partial:
            lines.append(self._partial)
        self._lines.extend(lines)


@contextmanager
def open_lines(file: Path | None, *, watched: bool) -> Iterator[tuple[Iterator[str], Callable[[], bool]]]:
    """Yield the lines of a file or of standard input, and a function that returns whether the next one is available.

    Args:
        file: the file; None for standard input.
        watched: raise BrokenPipeError while waiting for a line if the reader of standard output exits.

    Raises:
        DataError: for a line that is not UTF-8, with its number.
    """
    from regard.data.packed_files import is_gzipped
    from regard.data.text_files import read_lines

    if file is not None and (not file.exists() or file.is_file() or file.is_dir() or is_gzipped(file)):
        yield read_lines(file), _always
        return
    with _opened(file) as number:
        if number is None:
            lines = (line.removesuffix(b"\n") for line in sys.stdin.buffer)
            yield _decoded(lines, "standard input"), _always
        else:
            name = "standard input" if file is None else str(file)
            incoming = IncomingLines(
                partial(_read, number, name, watched), lambda: bool(_poll({number: select.POLLIN}, 0))
            )
            yield _decoded(incoming, name), incoming.ready


@contextmanager
def open_incoming(file: Path | None, *, watched: bool) -> Iterator[tuple[Callable[[], bytes], str]]:
    """Yield a function that waits for the next bytes of a file or of standard input, empty at its end, and the name.

    Args:
        file: the file, plain or .gz; None for standard input.
        watched: raise BrokenPipeError while waiting if the reader of standard output exits.

    Raises:
        DataError: if the file cannot be read.
    """
    from regard.data.packed_files import is_gzipped
    from regard.data.text_files import read_lines

    if file is not None and (not file.exists() or file.is_dir() or is_gzipped(file)):
        lines = read_lines(file)
        yield lambda: next((f"{line}\n".encode() for line in lines), b""), str(file)
        return
    with _opened(file) as number:
        name = "standard input" if file is None else str(file)
        if number is None:
            yield lambda: sys.stdin.buffer.readline(), name
        else:
            yield partial(_read, number, name, watched), name


@contextmanager
def open_inputs(
    run: Path, file: Path | None, columns: Sequence[int | str], *, watched: bool
) -> Iterator[tuple[Iterator[str], Callable[[], bool], deque[str] | None]]:
    """Yield the input texts as ``open_lines`` does, also for table files, and the names of the rows read last.

    Args:
        run: the run folder, whose task defines the columns.
        file: the file; None for standard input.
        columns: the columns of the input in a table file; empty for those of the task.
        watched: see ``open_lines``.

    Yields:
        The texts, the function ``ready`` of ``open_lines``, and the row names; None instead of names for plain lines.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.row_inputs import has_rows, read_row_inputs

    if file is None or not (has_rows(file) or columns) or file.is_dir() or not file.exists():
        if columns:
            raise ConfigError(
                "--column requires a file with columns", help="read a .csv, .tsv, .jsonl or .parquet file"
            )
        with open_lines(file, watched=watched) as (lines, ready):
            yield lines, ready, None
        return
    row_names: deque[str] = deque(maxlen=PLACES)

    def texts() -> Iterator[str]:
        for where, text in read_row_inputs(RunFolder.open(run), file, columns):
            row_names.append(where)
            yield text

    yield texts(), _always, row_names


@contextmanager
def _opened(file: Path | None) -> Iterator[int | None]:
    """Yield the file descriptor of a pipe or device; None if standard input is a regular file or has no descriptor."""
    if file is None:
        number = _number(sys.stdin)
        yield None if number is None or stat.S_ISREG(os.fstat(number).st_mode) else number
        return
    try:
        opened = file.open("rb", buffering=0)
    except OSError as error:
        raise _unreadable(str(file), error) from error
    with opened:
        yield opened.fileno()


def chunks(
    lines: Iterable[str],
    size: int,
    *,
    first: int | None = None,
    ready: Callable[[], bool] | None = None,
    whole: bool = False,
) -> Iterator[list[str]]:
    """Group lines into chunks.

    Args:
        lines: the lines.
        size: the maximum number of lines in a chunk.
        first: the number of lines in the first chunk, doubled for each following one up to ``size``.
        ready: returns whether the next line is available; a chunk ends early if it is not.
        whole: drop an incomplete chunk before an unreadable line. By default its lines are yielded before the error is
            raised.
    """
    chunk: list[str] = []
    room = size if first is None else min(first, size)
    try:
        for line in lines:
            chunk.append(line)
            if len(chunk) == room or (ready is not None and not ready()):
                room = min(2 * room, size) if len(chunk) == room else room
                yield chunk
                chunk = []
    except RegardError:
        if chunk and not whole:
            yield chunk
        raise
    if chunk:
        yield chunk


def count_lines(source: Path | None) -> int | None:
    """Return the number of lines of a file; None for a pipe, which can be read only once, and for a table file."""
    from regard.data.rows import form_of
    from regard.data.text_files import read_lines

    known = source is not None and source.is_file() and form_of(source) == "text"
    return sum(1 for _ in read_lines(source)) if source is not None and known else None


def reader_left() -> bool:
    """Raise BrokenPipeError, as a write would, if the reader of standard output has exited; otherwise return False."""
    if _poll(_output(), 0):
        raise BrokenPipeError
    return False


def _read(number: int, name: str, watched: bool) -> bytes:
    """Wait for bytes of an open file and return them."""
    output = _output() if watched else {}
    if number not in _poll({number: select.POLLIN} | output, None):
        raise BrokenPipeError
    try:
        return os.read(number, BLOCK)
    except OSError as error:
        raise _unreadable(name, error) from error


def _output() -> dict[int, int]:
    """Return the descriptor of standard output for ``_poll`` if it is a pipe; otherwise an empty mapping."""
    number = _number(sys.stdout)
    return {} if number is None or not stat.S_ISFIFO(os.fstat(number).st_mode) else {number: 0}


def _poll(watched: dict[int, int], milliseconds: int | None) -> set[int]:
    """Return the descriptors that are ready for their events or have failed."""
    poll = select.poll()
    for number, events in watched.items():
        poll.register(number, events)
    return {number for number, _ in poll.poll(milliseconds)}


def _number(stream: object) -> int | None:
    try:
        return int(stream.fileno())  # type: ignore[attr-defined]
    except (OSError, AttributeError):  # replaced by an object without a descriptor
        return None


def _always() -> bool:
    return True


def _unreadable(name: str, error: OSError) -> DataError:
    why = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
    return DataError(f"cannot read {name}", why=why, help="name a file, or redirect one: … < FILE")


def _decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    for number, raw in enumerate(lines, start=1):
        try:
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                "a line is not valid UTF-8",
                where=f"{name}:{number}",
                why=f"byte {error.start + 1} of the line is 0x{error.object[error.start]:02x}: {error.reason}",
                help="convert it, for example: iconv -f WINDOWS-1252 -t UTF-8",
            ) from error
