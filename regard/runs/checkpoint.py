"""Checkpoints of a run: saved atomically, pruned and listed; the best one is recorded.

    checkpoints/
        step-000500/    one checkpoint (``regard.runs.checkpoint_files``)
        best.json       the best checkpoint's step, metric and value

A checkpoint is written under a hidden name, synced and renamed. A kill at any moment leaves either the previous or the
new one.
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
from regard.core.wording import describe_error
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
    """The best checkpoint so far: its step, the metric and its value."""

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
    """Store one checkpoint in ``folder``, prune the others, and return its path.

    Tensors are restored bit for bit, on the CPU. Tensors that share memory within a group are stored once. The last
    ``keep`` checkpoints, the best one, and those in ``protect`` are kept. Checkpoints beyond ``step`` are removed
    unless protected: training is at ``step``, so they are damaged or belong to an abandoned run. Holds one group twice
    in memory.

    Args:
        folder: the folder of checkpoints.
        step: updates so far.
        groups: tensors by group and name.
        state: JSON values with text keys.
        keep: number of latest checkpoints to keep.
        protect: names of further checkpoints to keep ("step-000500").

    Raises:
        StorageError: the disk is full or not writable; earlier checkpoints are then intact.
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
    """Load the newest intact checkpoint of ``folder``; None if there has never been one.

    Newer unusable checkpoints are reported through ``on_problem``. Raises ModelError if all checkpoints are unusable:
    starting over must be the user's decision.
    """
    candidates = _candidates(folder)
    for step in sorted(candidates, reverse=True):
        try:
            return load(candidates[step])
        except ModelError as error:
            on_problem(f"{candidates[step].name} is unusable; trying the previous one. {error}")
    if candidates:
        raise ModelError(
            f"all checkpoints in {folder} are unusable ({len(candidates):,})",
            where=str(folder),
            help="start over in a new run folder",
        )
    return None


def list_steps(folder: Path) -> list[int]:
    """Return the steps that have a checkpoint in ``folder``, ascending. They may be damaged: only ``load`` verifies."""
    return sorted(_candidates(folder))


def step_path(folder: Path, step: int) -> Path:
    """Return the folder of a step's checkpoint."""
    return Path(folder) / f"step-{step:06d}"


def mark_best(folder: Path, step: int, metric: str, value: float) -> None:
    """Record a saved step in ``best.json``; pruning then keeps it."""
    atomic_files.write_json(Path(folder) / "best.json", {"step": step, "metric": metric, "value": value})


def read_best(folder: Path) -> Best | None:
    """Return the last record of ``mark_best``, or None; raises ModelError if the file is damaged."""
    path = Path(folder) / "best.json"
    if not path.exists():
        return None
    try:
        return Best(**_Best.model_validate_json(read_file(path, limit=SMALL)).model_dump())
    except ValueError as error:
        raise ModelError(f"{path} is damaged", where=str(path), why=describe_error(error), help="remove it") from error


def average(sources: Sequence[Path | Mapping[str, Tensor]], *, group: str = "model") -> dict[str, Tensor]:
    """Return the mean of one group over checkpoints, each a path (loaded one at a time) or tensors.

    Sums are float64; tied names are averaged once; integer buffers come from the last (``regard.core.tensors.mean``).
    """

    def tensors(source: Path | Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return source if isinstance(source, Mapping) else load(source, only={group}).groups[group]

    return mean(tensors(source) for source in sources)


def prune(folder: Path, step: int, keep: int, protect: Collection[str]) -> None:
    """Remove checkpoints as described in ``save``, after that of ``step`` was saved."""
    protected = {*protect, step_path(folder, step).name}
    best = best_or_none(folder)
    if best is not None and best.step > step:
        atomic_files.remove_file(folder / "best.json")
    elif best is not None:
        protected = {*protected, step_path(folder, best.step).name}
    steps = list_steps(folder)
    last = [saved_step for saved_step in steps if saved_step <= step][-keep:]
    for saved_step in steps:
        path = step_path(folder, saved_step)
        if saved_step not in last and path.name not in protected:
            atomic_files.remove_folder(path)


def best_or_none(folder: Path) -> Best | None:
    """Return the result of ``read_best``, or None for a damaged file, which must not stop training."""
    try:
        return read_best(folder)
    except RegardError:
        return None


def _candidates(folder: Path) -> dict[int, Path]:
    """Map each step to its folder; a set-aside folder counts only if its replacement is missing."""
    folders: dict[int, Path] = {}
    if not Path(folder).is_dir():
        return folders
    for path in sorted(Path(folder).iterdir()):  # ".step-…old" sorts before "step-…", which then wins
        match = FOLDER.fullmatch(path.name)
        if match and path.is_dir():
            folders[int(match[1] or match[2])] = path
    return folders
