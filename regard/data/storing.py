"""Refusals of the disk, in the words of a user."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import StorageError

__all__ = ["storing"]


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turn an OSError raised while writing below ``path`` into a StorageError."""
    try:
        yield
    except OSError as error:
        where = str(error.filename or path)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError("The disk is full.", where=where, help="free some space and run again") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise StorageError("No permission to write here.", where=where, why=error.strerror) from error
        raise StorageError("Writing failed.", where=where, why=error.strerror or str(error)) from error
