"""Memory of what was measured of engines: a small file beside a run, for each machine and checkpoint."""

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
KEPT = 16  # machines and checkpoints, the newest
PATIENCE = 60.0  # seconds to wait for another process that measures


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
    """Whoever made the file, nothing of it is used but names of this list, and figures to choose among them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    choices: Annotated[list[_Choice], Field(max_length=KEPT)] = []


def recall(folder: Path, key: str) -> dict[Engine, EngineFigures] | None:
    """Figures that were stored under that key; None where nothing was, or the file is none of ours."""
    for choice in _read(folder).choices:
        if choice.key == key and "float32" in choice.engines:
            return {name: EngineFigures(**each.model_dump()) for name, each in choice.engines.items()}
    return None


def remember(folder: Path, key: str, measured: Mapping[Engine, EngineFigures]) -> None:
    """Add to the file; nothing happens where the folder cannot be written."""
    others = [choice for choice in _read(folder).choices if choice.key != key][1 - KEPT :]
    figures = {name: _Figures.model_validate(each._asdict()) for name, each in measured.items()}
    file = _File(choices=[*others, _Choice(key=key, engines=figures)])
    try:
        atomic_files.write_json(folder / NAME, file.model_dump())
    except StorageError:
        pass  # it is measured anew each time


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let one process at a time measure, so that workers of one server take the same; not in a read-only folder."""
    with ExitStack() as held:
        try:
            held.enter_context(atomic_files.locked(folder / f".{NAME}.lock", patience=PATIENCE))
        except (StorageError, BlockingIOError):
            pass
        yield


def _read(folder: Path) -> _File:
    try:
        return _File.model_validate(parse_json(read_bytes(folder / NAME, SMALL)))
    except (OSError, ValueError):
        return _File()
