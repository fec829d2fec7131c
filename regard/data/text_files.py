"""Lines of text files, gzipped or not; strict about what is text, exact about what is wrong."""

from __future__ import annotations

import codecs
import difflib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from regard.errors import DataError, StorageError

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
        with _opened(path) as file:
            while chunk := file.read(CHUNK):
                if chunk.removeprefix(codecs.BOM_UTF8).strip():
                    return
                read += len(chunk)
    except (OSError, EOFError, zlib.error):  # whoever reads it next says so
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
    number = 0
    try:
        with _opened(path) as file:
            for number, raw in enumerate(file, start=1):
                line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
                yield line.removesuffix(b"\n").removesuffix(b"\r")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError("a gzip file is truncated or damaged", where=f"{path}:{number + 1}", why=str(error)) from error
    except OSError as error:
        raise unreadable(path, error) from error


def _opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def unreadable(path: Path, error: OSError) -> Exception:
    """The error that says why a file cannot be opened, with the nearest name where there is none."""
    if isinstance(error, PermissionError):
        return StorageError("no permission to read the file", where=str(path))
    if isinstance(error, IsADirectoryError):
        return DataError("this is a folder, not a text file", where=str(path))
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        return DataError("the file cannot be read", where=str(path), why=error.strerror or str(error))
    folder = path.parent
    if not folder.is_dir():
        return DataError("there is no such file", where=str(path), why=f"the folder {folder} is missing too")
    near = difflib.get_close_matches(path.name, [entry.name for entry in folder.iterdir()], n=1, cutoff=0.4)
    return DataError(
        "there is no such file", where=str(path), help=f"did you mean {folder / near[0]}?" if near else None
    )
