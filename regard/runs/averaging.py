"""Averaging of a run's checkpoints into the checkpoint ``checkpoints/average``."""

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
    """Write ``checkpoints/average`` from the ``last`` checkpoints of a run, or from ``steps``; return the steps.

    The write is atomic. Raises ModelError if a checkpoint is missing or damaged; an earlier average is then kept.
    """
    known_steps = checkpoint.list_steps(run.checkpoints)
    used = known_steps[-last:] if steps is None else sorted(set(steps))
    missing = [step for step in used if step not in known_steps]
    if missing or not used:
        raise ModelError(
            f"{run.path} has no checkpoint of step {', '.join(map(str, missing))}"
            if missing
            else f"{run.path} has no checkpoints",
            where=str(run.checkpoints),
            help=f"existing steps: {', '.join(map(str, known_steps))}" if known_steps else _how_to_train(run),
        )
    spec = run.task.open(run).spec
    for step in used:
        path = checkpoint.step_path(run.checkpoints, step)
        require_fitting(path, partial(run.task.build, run.config, spec), layers=run.config.layers)
    mean = checkpoint.average([checkpoint.step_path(run.checkpoints, step) for step in used])
    try:
        with atomic_files.locked(run.checkpoints):
            _publish(run, used, known_steps[-1], mean)
    except BlockingIOError as error:
        what, help = "another process is averaging this run", "wait until it has finished"
        raise ModelError(what, where=str(run.path), help=help) from error
    return used


def _publish(run: RunFolder, used: list[int], newest: int, mean: dict[str, Tensor]) -> None:
    """Write the checkpoint outside the checkpoints folder, where a running training would delete incomplete folders.

    The caller holds a lock: each process deletes what a killed one left in the temporary folder.
    """
    temporary = atomic_files.hidden_sibling(run.checkpoints, "tmp")
    with atomic_files.explain_os_errors(temporary):
        shutil.rmtree(temporary, ignore_errors=True)
    folder = checkpoint.save(temporary, used[-1], {"model": mean}, {"averaged": used, "newest": newest}, keep=1)
    atomic_files.commit_folder(folder, run.checkpoints / "average")
    with atomic_files.explain_os_errors(temporary):
        temporary.rmdir()


def _how_to_train(run: RunFolder) -> str | None:
    return f"regard train --resume {run.path}" if run.config.data.train else None
