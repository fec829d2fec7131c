"""Exceptions of other libraries' parsers, converted to errors that name the file; errors on opening a file."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.core.untrusted_files import shortened
from regard.core.wording import describe_error
from regard.errors import DataError, MissingDataError, RegardError, StorageError

PANIC = "PanicException"  # raised by Rust libraries: no subclass of Exception, cannot be imported


@contextmanager
def foreign_errors(
    what: str,
    path: Path | None,
    *,
    line: Callable[[], int] | None = None,
    error: type[RegardError] = DataError,
    help: str | None = None,
) -> Iterator[None]:
    """Convert any exception of the block, which parses ``path`` with another library, to an error that names the file.

    No list of exceptions is complete: parsers also raise exceptions that their authors did not foresee. Keep the block
    to the calls into the library, since a defect of our own code would look like a damaged file. RegardErrors and
    requests to stop (KeyboardInterrupt, SystemExit, GeneratorExit) are passed on. MemoryError and RecursionError are
    converted, since inside a parser the file causes them.

    Args:
        what: First sentence of the error, if the file could be opened.
        path: File that is parsed; names the place, unless it is None.
        line: Returns the number of the line that is parsed.
        error: Class of the error.
        help: Remedy.
    """
    try:
        yield
    except RegardError:
        raise
    except BaseException as failure:
        if path is not None and isinstance(failure, OSError) and failure.errno is not None:
            raise unreadable(path, failure) from failure
        if not is_foreign(failure):
            raise
        where = f"{path}:{line()}" if line else None if path is None else str(path)
        raise error(what, where=where, why=_reason(failure), help=help) from failure


def is_foreign(failure: BaseException) -> bool:
    """Return whether the exception comes from a library rather than from a request to stop."""
    return isinstance(failure, Exception) or type(failure).__name__ == PANIC


def _reason(failure: BaseException) -> str:
    if isinstance(failure, MemoryError):
        return "it needs more memory than is available"
    if isinstance(failure, RecursionError):
        return "it is nested too deeply"
    text, name = str(failure).strip(), type(failure).__name__
    return shortened(text if " " in text else f"{name}: {text}" if text else name)  # KeyError(9) alone is "9"


def unreadable(path: Path, error: OSError) -> RegardError:
    """Return the error for a file that cannot be opened; for a missing file, with the nearest name in its folder."""
    if isinstance(error, PermissionError):
        return StorageError("no permission to read the file", where=str(path))
    if isinstance(error, IsADirectoryError):
        return DataError("this is a folder, not a text file", where=str(path))
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        return DataError("the file cannot be read", where=str(path), why=describe_error(error))
    folder = path.parent
    if not folder.is_dir():
        return MissingDataError("file not found", where=str(path), why=f"the folder {folder} is missing too")
    near = difflib.get_close_matches(path.name, [entry.name for entry in folder.iterdir()], n=1, cutoff=0.4)
    help = f"did you mean {folder / near[0]}?" if near else None
    return MissingDataError("file not found", where=str(path), help=help)
