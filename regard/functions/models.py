"""The verbs that change or convert models, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.errors import ConfigError
from regard.runs.averaging import average_run
from regard.runs.run_folder import RunFolder
from regard.share.import_folder import import_folder


def average(run: str | Path, *, last: int | None = None, steps: Sequence[int] | None = None) -> list[int]:
    """Average the weights of several checkpoints and save them as a checkpoint; return the steps.

    Args:
        run: the run folder.
        last: the number of last checkpoints. Default: 10.
        steps: the checkpoints of these steps instead.
    """
    if last is not None and steps is not None:
        raise ConfigError("last and steps cannot be combined", help="use only one of them")
    return average_run(RunFolder.open(Path(run)), last=last or 10, steps=steps)


def import_model(folder: str | Path, run: str | Path) -> Path:
    """Create a run folder from a model trained with another library, and return it.

    Args:
        folder: the folder of the model.
        run: the new run folder.

    Raises:
        ModelError: if the model cannot be imported.
    """
    return import_folder(Path(folder), Path(run)).path
