"""Averaging of a run's checkpoints into a checkpoint of its own, ``checkpoints/average``."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial

from torch import Tensor

from regard.core import atomic_files
from regard.errors import ModelError
from regard.runs import checkpoint
from regard.runs.run_folder import RunFolder
from regard.runs.size_check import require_fitting


def average_run(run: RunFolder, *, last: int = 10, steps: Sequence[int] | None = None) -> list[int]:
    """Write ``checkpoints/average`` from the ``last`` checkpoints of a run, or from ``steps``; returns the steps used.

    The write is atomic. Raises ModelError if a checkpoint is missing or damaged; an earlier average then stays.
    """
    there = checkpoint.list_steps(run.checkpoints)
    used = there[-last:] if steps is None else sorted(set(steps))
    missing = [step for step in used if step not in there]
    if missing or not used:
        raise ModelError(
            f"{run.path} has no checkpoint of step {', '.join(map(str, missing))}"
            if missing
            else f"{run.path} has no checkpoints",
            where=str(run.checkpoints),
            help=f"there are {', '.join(map(str, there))}" if there else _how_to_train(run),
        )
    spec = run.task.open(run).spec
    for step in used:
        found = checkpoint.step_path(run.checkpoints, step)
        require_fitting(found, partial(run.task.build, run.config, spec), layers=run.config.layers)
    mean = checkpoint.average([checkpoint.step_path(run.checkpoints, step) for step in used])
    try:
        with atomic_files.locked(run.checkpoints):
            _publish(run, used, there[-1], mean)
    except BlockingIOError as error:
        what, help = "another process averages this run", "wait for it"
        raise ModelError(what, where=str(run.path), help=help) from error
    return used


def _publish(run: RunFolder, used: list[int], newest: int, mean: dict[str, Tensor]) -> None:
    """Make the checkpoint outside the checkpoints folder, where a training in progress would sweep it away half made.

    One process at a time: each removes what a kill left in the workshop.
    """
    workshop = atomic_files.hidden_sibling(run.checkpoints, "tmp")
    with atomic_files.explain_os_errors(workshop):
        shutil.rmtree(workshop, ignore_errors=True)
    made = checkpoint.save(workshop, used[-1], {"model": mean}, {"averaged": used, "newest": newest}, keep=1)
    atomic_files.commit_folder(made, run.checkpoints / "average")
    with atomic_files.explain_os_errors(workshop):
        workshop.rmdir()


def _how_to_train(run: RunFolder) -> str | None:
    return f"regard train --resume {run.path}" if run.config.data.train else None
