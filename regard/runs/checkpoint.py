"""The checkpoints of a run: saved whole or not at all, pruned, listed, and the best one remembered.

    checkpoints/
        step-000500/    one checkpoint (``regard.runs.checkpoint_files``)
        best.json       the best checkpoint's step, metric and value

A checkpoint is written under a hidden name, synced and renamed; a kill at any moment leaves the one before or the new
one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict
from torch import Tensor

from regard.core import atomic_files
from regard.core.tensors import digest, mean
from regard.core.untrusted_files import SMALL
from regard.core.wording import describe_error, pluralize
from regard.errors import ModelError, RegardError
from regard.runs.checkpoint_files import (
    FORMAT,
    Checkpoint,
    Step,
    identity,
    load,
    read_file,
    shapes,
    write_files,
)

__all__ = [
    "FORMAT",
    "Best",
    "Checkpoint",
    "average",
    "best_or_none",
    "digest",
    "identity",
    "list_steps",
    "load",
    "load_latest",
    "mark_best",
    "prune",
    "read_best",
    "save",
    "shapes",
    "step_path",
]

FOLDER = re.compile(r"(?:step-(\d{6,15})|\.step-(\d{6,15})\.old)")


class Best(NamedTuple):
    """The best checkpoint so far: its step, and the metric and value that made it so."""

    step: int
    metric: str
    value: float


class _Best(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

    step: Step
    metric: str
    value: float


def save(
    folder: Path,
    step: int,
    groups: Mapping[str, Mapping[str, Tensor]],
    state: Mapping[str, Any],
    *,
    keep: int,
    protect: Collection[str] = (),
) -> Path:
    """Store one checkpoint in ``folder`` and prune the others; returns its path.

    Tensors come back bit for bit, on the CPU; those that share memory under several names of one group are
    stored once. ``state`` must be JSON with text keys. The last ``keep`` checkpoints stay, the best one, and
    those named in ``protect`` ("step-000500"). Checkpoints beyond ``step`` are removed unless protected: training
    stands at ``step``, so they are damaged or belong to a course that was abandoned.

    Raises StorageError where the disk is full or may not be written; earlier checkpoints are then intact.
    Holds one group twice in memory.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, not {keep}")
    final = step_path(folder, step)
    temporary = atomic_files.hidden_sibling(final, "tmp")
    with atomic_files.explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        atomic_files.sweep(folder)
        with atomic_files.remove_on_error(temporary):
            temporary.mkdir()
            write_files(temporary, step, groups, state)
    atomic_files.commit_folder(temporary, final)
    prune(folder, step, keep, protect)
    return final


def load_latest(folder: Path, on_problem: Callable[[str], None]) -> Checkpoint | None:
    """Load the newest whole checkpoint of ``folder``; None where there has never been one.

    Each newer one that cannot be used is reported through ``on_problem``. Raises ModelError if there are checkpoints
    and none can be used: starting afresh must be the user's decision.
    """
    candidates = _candidates(folder)
    for step in sorted(candidates, reverse=True):
        try:
            return load(candidates[step])
        except ModelError as error:
            on_problem(f"{candidates[step].name} cannot be used, trying the one before it. {error}")
    if candidates:
        raise ModelError(
            f"none of the {pluralize(len(candidates), 'checkpoint')} in {folder} can be used",
            where=str(folder),
            help="start again in a new run folder",
        )
    return None


def list_steps(folder: Path) -> list[int]:
    """Return the steps that have a checkpoint in ``folder``, ascending; only ``load`` tells whether one is whole."""
    return sorted(_candidates(folder))


def step_path(folder: Path, step: int) -> Path:
    """Return the folder of a step's checkpoint."""
    return Path(folder) / f"step-{step:06d}"


def mark_best(folder: Path, step: int, metric: str, value: float) -> None:
    """Point ``best.json`` at a step saved before; pruning spares it from then on."""
    atomic_files.write_json(Path(folder) / "best.json", {"step": step, "metric": metric, "value": value})


def read_best(folder: Path) -> Best | None:
    """Return what ``mark_best`` wrote last, or None; raises ModelError if the file is damaged."""
    path = Path(folder) / "best.json"
    if not path.exists():
        return None
    try:
        return Best(**_Best.model_validate_json(read_file(path, limit=SMALL)).model_dump())
    except ValueError as error:
        raise ModelError(f"{path} is damaged", where=str(path), why=describe_error(error), help="remove it") from error


def average(sources: Sequence[Path | Mapping[str, Tensor]], *, group: str = "model") -> dict[str, Tensor]:
    """Return the mean of one group over checkpoints, each a path (loaded one at a time) or tensors.

    Float64 sums, tied names once, integer buffers from the last; see ``regard.core.tensors.mean``.
    """

    def tensors(source: Path | Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return source if isinstance(source, Mapping) else load(source, only={group}).groups[group]

    return mean(tensors(source) for source in sources)


def prune(folder: Path, step: int, keep: int, protect: Collection[str]) -> None:
    """Remove checkpoints as ``save`` says, after that of ``step`` was saved."""
    protected = {*protect, step_path(folder, step).name}
    best = best_or_none(folder)
    if best is not None and best.step > step:
        atomic_files.remove_file(folder / "best.json")
    elif best is not None:
        protected = {*protected, step_path(folder, best.step).name}
    steps = list_steps(folder)
    last = [each for each in steps if each <= step][-keep:]
    for each in steps:
        path = step_path(folder, each)
        if each not in last and path.name not in protected:
            atomic_files.remove_folder(path)


def best_or_none(folder: Path) -> Best | None:
    """Return what ``read_best`` does, but None for a damaged file, which must not stop training."""
    try:
        return read_best(folder)
    except RegardError:
        return None


def _candidates(folder: Path) -> dict[int, Path]:
    """Map each step to its folder; one that was set aside counts only if its successor never arrived."""
    found: dict[int, Path] = {}
    if not Path(folder).is_dir():
        return found
    for path in sorted(Path(folder).iterdir()):  # ".step-…old" sorts before "step-…", which then wins
        match = FOLDER.fullmatch(path.name)
        if match and path.is_dir():
            found[int(match[1] or match[2])] = path
    return found
