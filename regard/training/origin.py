"""The start of a training from another run: its tokenizers are copied, its weights are loaded once."""

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
from regard.errors import ConfigError, ModelError
from regard.models.origin_config import Origin
from regard.runs import checkpoint
from regard.runs.plan import PlannedOrigin
from regard.runs.run_config import StartingPoint
from regard.runs.run_folder import CheckpointChoice, RunFolder
from regard.runs.size_check import outline, require_fitting
from regard.training.reading_part import reading_weights

FILE = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")  # tokenizer files, as named by Tokenizer.save
MAX_FILES = 16


class OriginWeights(NamedTuple):
    """Initial weights of a training, those of the whole network or of its encoder, and their origin."""

    weights: Mapping[str, Tensor]
    planned: PlannedOrigin
    part: str = "all"

    def __str__(self) -> str:
        what = "" if self.part == "all" else "the encoder "
        return f"{what}starts from {self.planned.run}: {self.planned.checkpoint}"


def require_origin(origin: Origin) -> CheckpointChoice:
    """Return the checkpoint of an origin; ModelError if the run is missing or damaged."""
    return RunFolder.open(Path(origin.run)).network_path(origin.checkpoint)


def copy_codecs(run: RunFolder, origin: Origin) -> None:
    """Copy the tokenizers of the origin into a run without tokenizers."""
    _write(run, _saved_tokenizers(origin))


def copy_reading_tokenizer(run: RunFolder, origin: Origin) -> None:
    """Copy the input tokenizer of the origin's encoder, as ``text``, into a run without tokenizers."""
    name, _ = RunFolder.open(Path(origin.run)).config.reads_with
    files = _saved_tokenizers(origin).items()
    _write(run, {f"text{file.removeprefix(name)}": content for file, content in files if _is_of(name, file)})


def _is_of(name: str, file: str) -> bool:
    return file.partition(".")[0] == name


def _saved_tokenizers(origin: Origin) -> dict[str, bytes]:
    folder = RunFolder.open(Path(origin.run)).tokenizers
    try:
        files = sorted(path for path in folder.iterdir() if FILE.fullmatch(path.name))
        if len(files) > MAX_FILES:
            raise ValueError(f"it has more than {MAX_FILES} files")
        return {path.name: read_bytes(path, LARGE) for path in files}
    except (OSError, ValueError) as error:
        why = describe_error(error)
        raise ModelError(f"cannot read the tokenizer of {origin.run}", where=str(folder), why=why) from error


def _write(run: RunFolder, contents: Mapping[str, bytes]) -> None:
    with atomic_files.explain_os_errors(run.tokenizers):
        run.tokenizers.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        atomic_files.write_bytes_atomically(run.tokenizers / name, content)


def origin_weights(run: RunFolder, start: StartingPoint, spec: Mapping[str, int]) -> OriginWeights:
    """Return the initial weights of ``run``, after checking that they fit its network or encoder.

    ModelError if they do not fit, or differ from those in the run's plan.
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
            f"the weights of {planned.run} have changed since {run.path} began",
            where=str(chosen.path),
            why=f"their digest is {digest[:12]}…, it was {plan.origin.digest[:12]}…",
            help="start over in a new run folder",
        )
    if start.part == "encoder":
        expected = outline(build)
        weights = reading_weights(weights, expected, where=str(chosen.path))
        if run.config.lora is not None:
            _require_no_new_rows(weights, expected, start.origin.run)
    return OriginWeights(weights, planned, start.part)


def _require_no_new_rows(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor], source: str) -> None:
    """Raise ConfigError if a table of the encoder has a row that the source lacks: adapters would freeze it."""
    if any(tensor.ndim and len(tensor) < len(expected[name]) for name, tensor in weights.items()):
        raise ConfigError(
            f"model.lora cannot be used with {source}",
            where="model.lora",
            why="that run has no mask symbol, whose embedding has to be trained, and model.lora freezes embeddings",
            help="start from a masked model, or remove model.lora",
        )
