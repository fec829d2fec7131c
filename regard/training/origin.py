"""The beginning of a training that goes on from another run: its tokenizers copied, its weights taken once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from regard.core import atomic_files
from regard.core.untrusted_files import LARGE, read_bytes
from regard.errors import ModelError
from regard.models.origin_config import Origin
from regard.runs import checkpoint
from regard.runs.plan import PlannedOrigin
from regard.runs.run_folder import CheckpointChoice, RunFolder
from regard.runs.size_check import require_fitting

__all__ = ["OriginWeights", "copy_codecs", "origin_weights", "require_origin"]

FILE = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")  # of a tokenizer, as Tokenizer.save names them
MOST = 16


class OriginWeights(NamedTuple):
    """Weights that a training begins with, and where they are from."""

    weights: Mapping[str, Tensor]
    planned: PlannedOrigin

    def __str__(self) -> str:
        return f"starts from {self.planned.run}: {self.planned.checkpoint}"


def require_origin(origin: Origin) -> CheckpointChoice:
    """The checkpoint that an origin names; ModelError where there is no such run or it is damaged."""
    return RunFolder.open(Path(origin.run)).weights_path(origin.checkpoint)


def copy_codecs(run: RunFolder, origin: Origin) -> None:
    """Copy the tokenizers of the origin into a run that has none yet."""
    there = RunFolder.open(Path(origin.run)).tokenizers
    try:
        files = sorted(path for path in there.iterdir() if FILE.fullmatch(path.name))
        if len(files) > MOST:
            raise ValueError(f"it holds more than {MOST} files")
        contents = {path.name: read_bytes(path, LARGE) for path in files}
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelError(f"the tokenizer of {origin.run} cannot be read", where=str(there), why=why) from error
    with atomic_files.explain_os_errors(run.tokenizers):
        run.tokenizers.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        atomic_files.write_bytes_atomically(run.tokenizers / name, content)


def origin_weights(run: RunFolder, origin: Origin, spec: Mapping[str, int]) -> OriginWeights:
    """The weights that ``run`` begins with, seen to be of its network.

    ModelError where they are not, or not those that the run's plan knows.
    """
    chosen = require_origin(origin)
    require_fitting(chosen.path, partial(run.task.build, run.config, spec), layers=run.config.layers)
    weights = checkpoint.load(chosen.path, only={"model"}).groups["model"]
    planned = PlannedOrigin(run=origin.run, checkpoint=str(chosen), digest=checkpoint.digest({"model": weights}))
    plan = run.read_plan()
    if plan is not None and plan.origin is not None and plan.origin.digest != planned.digest:
        raise ModelError(
            f"{origin.run} has other weights than when {run.path} began",
            where=str(chosen.path),
            why=f"their digest is {planned.digest[:12]}…, and was {plan.origin.digest[:12]}…",
            help="start again in a new run folder",
        )
    return OriginWeights(weights, planned)
