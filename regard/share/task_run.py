"""A trained run of any task for publication: without data, optimizer and history, with a model card and checksums.

What is written is a run folder that ``regard.load``, the task's verb and ``regard serve`` open; its weights are those
of one checkpoint, bit for bit.
"""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.core import atomic_files
from regard.core.wording import pluralize
from regard.data.text_files import read_lines
from regard.runs import checkpoint
from regard.runs.metrics_log import read_validations
from regard.runs.model_card import write_shared_card
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import CheckpointChoice, RunFolder
from regard.share.export_format import ExportFormat
from regard.tasks.load import load
from regard.tasks.prediction import read_inputs


class SameOutputs(NamedTuple):
    """Number of lines compared, and of those with the same output."""

    lines: int
    same: int

    def __str__(self) -> str:
        return f"of {pluralize(self.lines, 'line')} {self.same:,} have the same output"

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json``."""
        atomic_files.write_json(folder / "parity.json", {"to": to, **self._asdict()})


class WrittenWeights(NamedTuple):
    """The weights of a shared run: their checkpoint and its step, and the number of parameters."""

    chosen: CheckpointChoice
    step: int
    parameters: int


@dataclass(frozen=True)
class TaskExport:
    """A run of any task, to be shared: see ``export_format.Export``."""

    run: RunFolder
    checkpoint: str | None
    predictor: Any

    def inputs(self, source: Path | None, limit: int) -> list[str]:
        """Return lines of a file, or those of the task's own sample that the model can read.

        Raises DataError for a line of a file that it cannot read.
        """
        if source is None:
            samples = self.run.task.sample_lines
            return [line for line in samples if read_inputs(self.predictor, [line], name="sample")[1] is None]
        lines = list(islice(read_lines(source), limit))
        _, error = read_inputs(self.predictor, lines, name=str(source))
        if error is not None:
            raise error
        return lines

    def write(self, folder: Path) -> None:
        chosen, step, parameters = write_weights(self.run, self.checkpoint, folder)
        validation = _validation(self.run, chosen)
        if validation:  # predictors may go by it, as a classifier does by its temperature
            line = json.dumps({"step": step, "validation": validation}) + "\n"
            (folder / "metrics.jsonl").write_text(line, encoding="utf-8")
        write_shared_card(self.run, weights=str(chosen), parameters=parameters, validation=validation, folder=folder)

    def compare(self, inputs: Sequence[str], folder: Path) -> SameOutputs | None:
        """Compare outputs for the same lines and, where they are drawn, the same seed."""
        if not inputs:
            return None
        written = []
        for predictor in (self.predictor, load(folder, device="cpu")):
            values, _ = read_inputs(predictor, list(inputs), name="--source")
            drawn = {"seed": 1} if "seed" in inspect.signature(predictor.__call__).parameters else {}
            written.append([predictor.write(each, json=True) for each in predictor(values, **drawn)])
        return SameOutputs(len(inputs), sum(one == other for one, other in zip(*written, strict=True)))


def write_weights(run: RunFolder, which: str | None, folder: Path) -> WrittenWeights:
    """Write the checkpoint called ``which`` (see ``RunFolder.weights_path``) as a run, to a folder empty or absent."""
    chosen, plan = run.weights_path(which), run.read_plan()
    found = checkpoint.load(chosen.path, only={"model"})
    written = RunFolder.create(folder, _without_data(run.config))
    shutil.copytree(run.tokenizers, written.tokenizers, dirs_exist_ok=True, symlinks=False)
    if plan is not None:
        written.write_plan(plan.model_copy(update={"corpora": {}, "seconds_per_update": {}, "origin": None}))
    weights = found.groups["model"]
    averaged = chosen.steps if chosen.name == "average" else []
    state: dict[str, Any] = {"averaged": list(averaged), "newest": found.step} if averaged else {}
    made = checkpoint.save(written.checkpoints, found.step, {"model": weights}, state, keep=1)
    if averaged:
        atomic_files.commit_folder(made, written.checkpoints / "average")
    atomic_files.remove_file(folder / "environment.json")  # describes the machine that exports
    return WrittenWeights(chosen, found.step, sum(tensor.numel() for tensor in weights.values()))


def write_checksums(folder: Path) -> None:
    """Write ``SHA256SUMS`` of every file in the folder, for ``sha256sum --check``."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = (f"{atomic_files.sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    atomic_files.write_bytes_atomically(folder / "SHA256SUMS", "".join(lines).encode())


def _without_data(config: RunConfig) -> RunConfig:
    """The config without corpora and without settings that depend on them."""
    values = config.model_dump(by_alias=True)
    values["data"] |= {"train": [], "valid": None}
    if "from" in values["model"]:
        values["model"] |= {"from": None}
    values["train"] |= {"early_stopping": None, "best_by": "loss", "threads": None}
    return type(config).model_validate(values)


def _validation(run: RunFolder, chosen: CheckpointChoice) -> dict[str, float]:
    """The figures of the checkpoint; of an average those of the newest one that was validated."""
    found = {step: figures for step, figures in read_validations(run.path / "metrics.jsonl") if step in chosen.steps}
    return found[max(found)] if found else {}


def _open(run: RunFolder, checkpoint: str | None) -> TaskExport:
    return TaskExport(run, checkpoint, load(run.path, checkpoint=checkpoint, device="cpu"))


FORMAT = ExportFormat(open=_open, finish=write_checksums)
