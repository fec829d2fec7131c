"""The beginning of a training that starts from another run: its tokenizers copied, its weights taken once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from regard.core import atomic_files
from regard.core.untrusted_files import LARGE, read_bytes
from regard.core.wording import describe_error
from regard.errors import ModelError
from regard.models.origin_config import Origin
from regard.runs import checkpoint
from regard.runs.plan import PlannedOrigin
from regard.runs.run_config import StartingPoint
from regard.runs.run_folder import CheckpointChoice, RunFolder
from regard.runs.size_check import outline, require_fitting
from regard.training.reading_part import reading_weights

FILE = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")  # of a tokenizer, as Tokenizer.save names them
MOST = 16


class OriginWeights(NamedTuple):
    """Weights that a training begins with, all of the network or those of its encoder, and where they are from."""

    weights: Mapping[str, Tensor]
    planned: PlannedOrigin
    part: str = "all"

    def __str__(self) -> str:
        what = "" if self.part == "all" else "the encoder "
        return f"{what}starts from {self.planned.run}: {self.planned.checkpoint}"


def require_origin(origin: Origin) -> CheckpointChoice:
    """The checkpoint that an origin names; ModelError where there is no such run or it is damaged."""
    return RunFolder.open(Path(origin.run)).weights_path(origin.checkpoint)


def copy_codecs(run: RunFolder, origin: Origin) -> None:
    """Copy the tokenizers of the origin into a run that has none yet."""
    _write(run, _saved_tokenizers(origin))


def copy_reading_tokenizer(run: RunFolder, origin: Origin) -> None:
    """Copy the tokenizer of what the origin's encoder reads into a run that has none yet, as ``text``."""
    name, _ = RunFolder.open(Path(origin.run)).config.reads_with
    found = _saved_tokenizers(origin)
    _write(run, {f"text{each.removeprefix(name)}": content for each, content in found.items() if _is_of(name, each)})


def _is_of(name: str, file: str) -> bool:
    return file.partition(".")[0] == name


def _saved_tokenizers(origin: Origin) -> dict[str, bytes]:
    there = RunFolder.open(Path(origin.run)).tokenizers
    try:
        files = sorted(path for path in there.iterdir() if FILE.fullmatch(path.name))
        if len(files) > MOST:
            raise ValueError(f"it holds more than {MOST} files")
        return {path.name: read_bytes(path, LARGE) for path in files}
    except (OSError, ValueError) as error:
        why = describe_error(error)
        raise ModelError(f"the tokenizer of {origin.run} cannot be read", where=str(there), why=why) from error


def _write(run: RunFolder, contents: Mapping[str, bytes]) -> None:
    with atomic_files.explain_os_errors(run.tokenizers):
        run.tokenizers.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        atomic_files.write_bytes_atomically(run.tokenizers / name, content)


def origin_weights(run: RunFolder, start: StartingPoint, spec: Mapping[str, int]) -> OriginWeights:
    """The weights that ``run`` begins with, seen to be of its network, or of its encoder.

    ModelError where they are not, or not those that the run's plan knows.
    """
    chosen = require_origin(start.origin)
    build = partial(run.task.build, run.config, spec)
    if start.part == "all":
        require_fitting(chosen.path, build, layers=run.config.layers)
    weights = checkpoint.load(chosen.path, only={"model"}).groups["model"]
    digest = checkpoint.digest({"model": weights})
    planned = PlannedOrigin(run=start.origin.run, checkpoint=str(chosen), digest=digest)
    plan = run.read_plan()
    if plan is not None and plan.origin is not None and plan.origin.digest != digest:
        raise ModelError(
            f"{planned.run} has other weights than when {run.path} began",
            where=str(chosen.path),
            why=f"their digest is {digest[:12]}…, and was {plan.origin.digest[:12]}…",
            help="start again in a new run folder",
        )
    if start.part == "encoder":
        weights = reading_weights(weights, outline(build), where=str(chosen.path))
    return OriginWeights(weights, planned, start.part)
