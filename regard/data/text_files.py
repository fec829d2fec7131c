"""Lines of text files, gzipped or not; strict about what is text, exact about what is wrong."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from regard.data.foreign_errors import foreign_errors, unreadable
from regard.data.packed_files import longest_line, open_unpacked
from regard.errors import DataError, RegardError

__all__ = ["read_lines", "read_raw_lines", "refuse_pipe", "require_content", "unreadable"]

CHUNK = 1 << 16  # bytes


def refuse_pipe(path: Path) -> None:
    """DataError for a path that is neither a file nor a folder; nothing where there is none."""
    try:
        there = path.exists() and not path.is_file() and not path.is_dir()
    except OSError as error:  # such as a name that is too long
        raise unreadable(path, error) from error
    if there:
        raise DataError(
            "a pipe or device cannot be a corpus",
            where=str(path),
            why="it can be read only once",
            help="save it to a file first; a file may be gzipped",
        )


def require_content(path: Path) -> None:
    """DataError for a file, ``.gz`` or not, that is empty or has blank lines alone; read as far as its first sign."""
    read = 0
    try:
        with foreign_errors("the file is damaged", path), open_unpacked(path) as file:
            while chunk := file.read(CHUNK):
                if chunk.removeprefix(codecs.BOM_UTF8).strip():
                    return
                read += len(chunk)
    except RegardError:  # reported by the next reader
        return
    raise DataError(
        "there is nothing in this file",
        where=str(path),
        why="all of its lines are blank" if read else "it is empty",
        help="leave it out, or restore it; regard train --help says what files are taken",
    )


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, ``.gz`` or not, without their ends; only a line feed ends a line.

    Strict UTF-8 (a byte-order mark at the start is dropped): DataError with file and line otherwise. Also
    DataError for a missing file (with the nearest name there), a folder, damaged gzip, and an empty file.
    """
    number = 0
    for number, raw in enumerate(read_raw_lines(path), start=1):
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                "a line is not valid UTF-8",
                where=f"{path}:{number}",
                why=f"byte {error.start + 1} of the line is 0x{error.object[error.start]:02x}: {error.reason}",
                help=f"iconv -f WINDOWS-1252 -t UTF-8 {path.name} > fixed.txt, if that is its encoding",
            ) from error
    if number == 0:
        raise DataError("the file is empty", where=str(path))


def read_raw_lines(path: Path) -> Iterator[bytes]:
    """Yield lines as ``read_lines`` does, but undecoded: any bytes will do, and an empty file has no lines."""
    number, damaged = 0, "a gzip file is truncated or damaged"
    with foreign_errors(damaged, path, line=lambda: number + 1), open_unpacked(path) as file:
        limit = longest_line(path)
        for number, raw in enumerate(file, start=1):
            if len(raw) > limit:
                what, help = f"a line has more than {limit:,} bytes", f"gunzip {path}, and name the unpacked file"
                raise DataError(what, where=f"{path}:{number}", help=help)
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield line.removesuffix(b"\n").removesuffix(b"\r")
