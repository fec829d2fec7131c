"""The outputs of a block as one file: a JSON line of counts, then one output line for each input line.

One file makes outputs, counts and quarantined lines visible together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core import atomic_files
from regard.core.wording import pluralize
from regard.errors import DataError


class SetAside(NamedTuple):
    """A line without an output: its number in the input, the reason, and its text."""

    line: int
    why: str
    text: str


def publish(path: Path, job: str, outputs: Sequence[str], aside: Sequence[SetAside], *, distinct: int) -> bool:
    """Publish the outputs of a block whole, unless another process has; return whether this one was the first."""
    data = "".join(f"{output}\n" for output in outputs).encode()
    about = {
        "job": job, "lines": len(outputs), "distinct": distinct, "sha256": hashlib.sha256(data).hexdigest(),
        "quarantined": [line._asdict() for line in aside],
    }  # fmt: skip
    return atomic_files.publish_first(path, [json.dumps(about).encode() + b"\n", data])


def read(path: Path, job: str, lines: int) -> tuple[dict[str, Any], bytes]:
    """Return the record of a block and its outputs.

    Raises:
        DataError: they are damaged, of another job, or of another number of lines.
    """
    try:
        head, _, data = path.read_bytes().partition(b"\n")
        about: dict[str, Any] = json.loads(head)
        if about["job"] != job:
            why = "it belongs to another job"
        elif hashlib.sha256(data).hexdigest() != about["sha256"]:
            why = "its sha256 differs from the record"
        elif not data.count(b"\n") == about["lines"] == lines:
            why = f"it has {pluralize(data.count(10), 'line')} for {lines:,} of the input"
        else:
            return about, data
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = str(error)
    help = f"rm {path}, then run the same command again"
    raise DataError("the outputs of a block are damaged", where=str(path), why=why, help=help)
