"""Opening of prepared data: a head in JSON that says what the files beside it hold, checked before they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from regard.core.untrusted_files import SMALL, parse_json, read_bytes
from regard.errors import DataError, StorageError

__all__ = ["open_prepared"]

Opened = TypeVar("Opened")


def open_prepared(
    path: Path,
    format: Mapping[str, Any],
    build: Callable[[Any], Opened],
    *,
    name: str,
    damaged: Callable[[Path, str], DataError],
) -> Opened:
    """Data that ``build`` makes of the head at ``path`` and of the files beside it.

    ``format``: keys that the head must have with these values. ``name``: of such data, for messages. DataError where
    they are missing, damaged (made by ``damaged`` of file and reason) or of another version.
    """
    folder = str(path.parent)
    try:
        head = parse_json(read_bytes(path, SMALL))
        if {key: head[key] for key in format} != format:
            raise damaged(path, "it has another format or version")
        return build(head)
    except FileNotFoundError as error:
        raise DataError(f"this folder has no prepared {name}", where=folder) from error
    except OSError as error:
        raise StorageError(f"the prepared {name} cannot be read", where=folder, why=error.strerror) from error
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path, str(error)) from error
