"""``metrics.jsonl`` of a run: one JSON line per update and per validation; writer and readers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter

from regard.core import atomic_files
from regard.core.untrusted_files import parse_json, read_records
from regard.core.wording import describe_error
from regard.errors import ModelError

_STEP = TypeAdapter(Annotated[int, Field(ge=0, lt=10**15)])
_FIGURES = TypeAdapter(dict[str, float])


class MetricsRecord(NamedTuple):
    """Figures after update ``step``, by name: those of the update itself, or those of a validation."""

    step: int
    figures: dict[str, float]


class MetricsLog:
    """Writer of ``metrics.jsonl``: appends lines; on resuming, it first truncates the file to a checkpoint's size."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, 0

    def truncate(self, size: int) -> None:
        """Drop everything beyond ``size`` bytes, which was written after a checkpoint."""
        with atomic_files.explain_os_errors(self.path):
            if self.path.exists() and self.path.stat().st_size > size:
                os.truncate(self.path, size)
            self.size = (
                self.path.stat().st_size if self.path.exists() else 0
            )  # smaller if the file was truncated or removed

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one line."""
        line = (json.dumps(record) + "\n").encode()
        with atomic_files.explain_os_errors(self.path), self.path.open("ab") as file:
            file.write(line)
        self.size += len(line)
        atomic_files.fault_point("metrics")

    def sync(self) -> int:
        """Flush all lines to the disk, as checkpoints rely on them; returns their size in bytes."""
        if self.size:
            with atomic_files.explain_os_errors(self.path), self.path.open("rb") as file:
                os.fsync(file.fileno())
        return self.size


def read_updates(path: Path) -> Iterator[MetricsRecord]:
    """Yield the figures of each update in order; damaged lines are skipped, and a missing file yields nothing.

    The figures are numbers such as ``loss``, ``rate``, ``tokens`` (of the target) and ``seconds``.
    """
    for _, line in _lines(path):
        try:
            record = parse_json(line)
            step = _STEP.validate_python(record["step"])
            figures = {name: float(value) for name, value in record.items() if isinstance(value, int | float)}
            if "loss" in figures:
                yield MetricsRecord(step, figures)
        except (ValueError, TypeError, KeyError, OverflowError):
            continue


def read_validations(path: Path, *, strict: bool = False) -> Iterator[MetricsRecord]:
    """Yield the figures of each validation in order; a missing file yields nothing.

    An incomplete last line, left by a kill, is skipped. Other damaged lines are skipped, too, unless ``strict``: then
    ModelError names the line.
    """
    for number, line in _lines(path):
        if b'"validation"' not in line:
            continue
        try:
            record = parse_json(line)
            step = _STEP.validate_python(record["step"])
            yield MetricsRecord(step, _FIGURES.validate_python(record["validation"]))
        except (ValueError, TypeError, KeyError) as error:
            if strict:
                why = describe_error(error)
                where = f"{path}:{number}"
                raise ModelError(f"{path.name} is damaged", where=where, why=why, help="remove this line") from error


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each complete line."""
    if path.is_file():
        yield from ((number, line) for number, line in read_records(path) if line.endswith(b"\n"))
