"""A trained run of any task for publication: without data, optimizer and history, with a model card and checksums.

The export is a run folder that ``regard.load``, the command of its task and ``regard serve`` open. Its weights are a
bit-identical copy of one checkpoint.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.core import atomic_files
from regard.core.baseline import FOLDER, copy_baseline
from regard.core.predictor import settings_of_call
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
    """Number of compared lines, and of lines with the same output."""

    lines: int
    same: int

    def __str__(self) -> str:
        return f"equal outputs for {self.same:,} of {pluralize(self.lines, 'line')}"

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json``."""
        atomic_files.write_json(folder / "parity.json", {"to": to, **self._asdict()})


class WrittenWeights(NamedTuple):
    """Weights of an exported run: their checkpoint, its step and the number of parameters."""

    chosen: CheckpointChoice
    step: int
    parameters: int


@dataclass(frozen=True)
class TaskExport:
    """A run of any task, opened for export: see ``export_format.Export``."""

    run: RunFolder
    checkpoint: str | None
    predictor: Any

    def inputs(self, source: Path | None, limit: int) -> list[str]:
        """Return lines of a file or, without one, the task's sample lines that the model can read.

        Raises:
            DataError: the model cannot read a line of the file.
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
        if validation:  # predictors may need it: a classifier reads its temperature
            line = json.dumps({"step": step, "validation": validation}) + "\n"
            (folder / "metrics.jsonl").write_text(line, encoding="utf-8")
        write_shared_card(self.run, weights=str(chosen), parameters=parameters, validation=validation, folder=folder)

    def compare(self, inputs: Sequence[str], folder: Path) -> SameOutputs | None:
        """Compare the outputs for the same lines and, if they are sampled, the same seed."""
        if not inputs:
            return None
        outputs = []
        for predictor in (self.predictor, load(folder, device="cpu")):
            values, _ = read_inputs(predictor, list(inputs), name="--source")
            options = {"seed": 1} if "seed" in settings_of_call(predictor) else {}
            outputs.append([predictor.write(value, json=True) for value in predictor(values, **options)])
        return SameOutputs(len(inputs), sum(one == other for one, other in zip(*outputs, strict=True)))


def write_weights(run: RunFolder, which: str | None, folder: Path) -> WrittenWeights:
    """Write the checkpoint called ``which`` (see ``RunFolder.weights_path``) as a run to an empty or new folder."""
    chosen, plan = run.weights_path(which), run.read_plan()
    saved = checkpoint.load(chosen.path, only={"model"})
    written = RunFolder.create(folder, _without_data(run.config))
    shutil.copytree(run.tokenizers, written.tokenizers, dirs_exist_ok=True, symlinks=False)
    copy_baseline(run.path / FOLDER, written.path / FOLDER)
    if plan is not None:
        written.write_plan(plan.model_copy(update={"corpora": {}, "seconds_per_update": {}, "origin": None}))
    weights = saved.groups["model"]
    averaged = chosen.steps if chosen.name == "average" else []
    state: dict[str, Any] = {"averaged": list(averaged), "newest": saved.step} if averaged else {}
    target = checkpoint.save(written.checkpoints, saved.step, {"model": weights}, state, keep=1)
    if averaged:
        atomic_files.commit_folder(target, written.checkpoints / "average")
    atomic_files.remove_file(folder / "environment.json")  # describes this machine
    return WrittenWeights(chosen, saved.step, sum(tensor.numel() for tensor in weights.values()))


def write_checksums(folder: Path) -> None:
    """Write ``SHA256SUMS`` for all files of the folder, for ``sha256sum --check``."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = (f"{atomic_files.sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    atomic_files.write_bytes_atomically(folder / "SHA256SUMS", "".join(lines).encode())


def _without_data(config: RunConfig) -> RunConfig:
    """Return the config without corpora and the settings that depend on them."""
    values = config.model_dump(by_alias=True)
    values["data"] |= {"train": [], "valid": None}
    values["model"] |= {key: None for key in ("from", "lora") if key in values["model"]}
    values["train"] |= {"early_stopping": None, "best_by": "loss", "choose": "network", "threads": None}
    return type(config).model_validate(values)


def _validation(run: RunFolder, chosen: CheckpointChoice) -> dict[str, float]:
    """Return the validation metrics of the checkpoint; for an average, those of its latest validated checkpoint."""
    metrics = {step: values for step, values in read_validations(run.path / "metrics.jsonl") if step in chosen.steps}
    return metrics[max(metrics)] if metrics else {}


def _open(run: RunFolder, checkpoint: str | None) -> TaskExport:
    return TaskExport(run, checkpoint, load(run.path, checkpoint=checkpoint, device="cpu"))


FORMAT = ExportFormat(open=_open, finish=write_checksums)
