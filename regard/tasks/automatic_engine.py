"""Choice of the engine of a run by a trial on its validation data.

The run folder stores the measurements in ``engine.json``, by machine and checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from regard.core import atomic_files
from regard.core.task import Report
from regard.core.untrusted_files import SMALL, parse_json, read_bytes
from regard.errors import StorageError
from regard.inference.decoding import Engine
from regard.inference.engine_choice import EngineFigures, EngineTrials, choose, explain, kernel_set, measure
from regard.runs.run_folder import RunFolder, environment

CONDITIONS = ("regard", "torch", "processor", "vector_instructions", "threads")
NAME = "engine.json"
MAX_CHOICES = 16  # newest combinations of machine and checkpoint
PATIENCE = 60.0  # seconds to wait for another measuring process


def automatic_engine(
    run: RunFolder, net: nn.Module, codecs: Any, checkpoint: Path, log: Report,
    clock: Callable[[], float] = time.perf_counter,
) -> Engine | None:  # fmt: skip
    """Return the fastest engine that is accurate enough for a run on this machine, and log the reason.

    Returns:
        The engine; None if the model has fewer than two.
    """
    if run.task.engine_trials is None:
        return None
    trials: EngineTrials = run.task.engine_trials(run, net, codecs)
    names = trials.candidates()
    if len(names) < 2:
        return None
    key = _key(checkpoint)
    with exclusive(run.path):
        measured = load_choice(run.path, key)
        if measured is None or set(measured) != set(names):
            lines = trials.lines()
            if lines is None:
                log(f"engine float32: {run.data} has no prepared lines for a trial of other engines")
                return "float32"
            measured = measure({name: trials.trial(name, lines) for name in names}, clock)
            save_choice(run.path, key, measured)
    log(explain(measured))
    return choose(measured)


def _key(checkpoint: Path) -> str:
    """Return a sha256 over all conditions of a measurement: weights, versions, instructions and threads."""
    manifest = hashlib.sha256((checkpoint / "manifest.json").read_bytes()).hexdigest()
    now = environment()
    conditions = [manifest, kernel_set(), *(now[condition] for condition in CONDITIONS)]
    return hashlib.sha256(json.dumps(conditions).encode()).hexdigest()


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
