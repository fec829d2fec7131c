"""Small JSON files of what a run learned from its data: labels, scales, baselines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from regard.core.atomic_files import write_json
from regard.core.untrusted_files import LARGE, parse_json, read_bytes
from regard.core.wording import describe_error
from regard.errors import ModelError

Content = TypeVar("Content")
# What code raises that takes a value of JSON apart and finds another type, size or number than it expects.
MALFORMED = (AttributeError, LookupError, OverflowError, TypeError, ValueError)


def save_codec_file(path: Path, value: Any) -> None:
    """Write a value as JSON, in a folder that is made if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, value)


def open_codec_file(path: Path, parse: Callable[[Any], Content], *, limit: int = LARGE) -> Content:
    """Return what ``parse`` makes of a saved value.

    Args:
        path: the file.
        parse: checks the value and converts it; raises ValueError, or what a wrong type leads to.
        limit: the largest size in bytes.

    Raises:
        ModelError: the file is missing or damaged.
    """
    try:
        return parse(parse_json(read_bytes(path, limit)))
    except (OSError, *MALFORMED) as error:
        problem = "is missing" if isinstance(error, FileNotFoundError) else "is damaged"
        what, why = f"the codec {path.name} {problem}", describe_error(error)
        raise ModelError(what, where=str(path), why=why, help="copy the whole run folder again") from error
