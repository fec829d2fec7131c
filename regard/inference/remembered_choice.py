"""Saved measurements of engines: a small file in the run folder, by machine and checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.core import atomic_files
from regard.core.untrusted_files import SMALL, parse_json, read_bytes
from regard.errors import StorageError
from regard.inference.decoding import Engine
from regard.inference.engine_choice import EngineFigures

NAME = "engine.json"
MAX_CHOICES = 16  # newest combinations of machine and checkpoint
PATIENCE = 60.0  # seconds to wait for another measuring process


class _Figures(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seconds: Annotated[float, Field(ge=0)]
    difference: Annotated[float, Field(ge=0)]
    agreement: Annotated[float, Field(ge=0, le=1)]


class _Choice(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    key: Annotated[str, Field(max_length=64)]
    engines: dict[Engine, _Figures]


class _File(BaseModel):
    """The file, which may come from others: only names of engines and their figures are used."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    choices: Annotated[list[_Choice], Field(max_length=MAX_CHOICES)] = []


def load_choice(folder: Path, key: str) -> dict[Engine, EngineFigures] | None:
    """Return the figures saved for a key; None if they are missing or the file is invalid."""
    for choice in _read(folder).choices:
        if choice.key == key and "float32" in choice.engines:
            return {name: EngineFigures(**figures.model_dump()) for name, figures in choice.engines.items()}
    return None


def save_choice(folder: Path, key: str, measured: Mapping[Engine, EngineFigures]) -> None:
    """Save figures to the file; nothing happens if the folder is not writable."""
    other_choices = [choice for choice in _read(folder).choices if choice.key != key][1 - MAX_CHOICES :]
    figures = {name: _Figures.model_validate(one._asdict()) for name, one in measured.items()}
    file = _File(choices=[*other_choices, _Choice(key=key, engines=figures)])
    try:
        atomic_files.write_json(folder / NAME, file.model_dump())
    except StorageError:
        pass  # engines are then measured each time


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Let one process at a time measure, so all workers of a server use the same engine.

    Has no effect in a read-only folder.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(atomic_files.locked(folder / f".{NAME}.lock", patience=PATIENCE))
        except (StorageError, BlockingIOError):
            pass
        yield


def _read(folder: Path) -> _File:
    try:
        return _File.model_validate(parse_json(read_bytes(folder / NAME, SMALL)))
    except (OSError, ValueError):
        return _File()
