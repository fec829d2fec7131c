"""Small JSON files with the codecs that a run learned from its data: labels, scales, baselines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from regard.core.atomic_files import write_json
from regard.core.untrusted_files import LARGE, parse_json, read_bytes
from regard.core.wording import describe_error
from regard.errors import ModelError

Content = TypeVar("Content")
# Errors of code that parses a JSON value and meets an unexpected type, size or number.
MALFORMED = (AttributeError, LookupError, OverflowError, TypeError, ValueError)


def save_codec_file(path: Path, value: Any) -> None:
    """Write a value as JSON, in a folder that is created if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, value)


def open_codec_file(path: Path, parse: Callable[[Any], Content], *, limit: int = LARGE) -> Content:
    """Return the result of ``parse`` for a saved value.

    Args:
        path: the file.
        parse: checks the value and converts it; raises ValueError, or the error of a wrong type.
        limit: the maximum size in bytes.

    Raises:
        ModelError: the file is missing or damaged.
    """
    try:
        return parse(parse_json(read_bytes(path, limit)))
    except (OSError, *MALFORMED) as error:
        problem = "is missing" if isinstance(error, FileNotFoundError) else "is damaged"
        what, why = f"the codec {path.name} {problem}", describe_error(error)
        raise ModelError(what, where=str(path), why=why, help="copy the whole run folder again") from error
