"""A trained run of any task for publication: without data, optimiser and history, with a model card and checksums.

What is written is a run folder that ``regard.load``, the task's verb and ``regard serve`` open; its weights are those
of one checkpoint, bit for bit.
"""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core import atomic_files
from regard.core.wording import counted
from regard.runs import checkpoint
from regard.runs.metrics_log import read_validations
from regard.runs.model_card import write_shared_card
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import CheckpointChoice, RunFolder
from regard.tasks.load import load
from regard.tasks.prediction import read_inputs

__all__ = ["SameOutputs", "compare_outputs", "write_task_run"]


class SameOutputs(NamedTuple):
    """Number of lines compared, and of those with the same output."""

    lines: int
    same: int

    def __str__(self) -> str:
        return f"of {counted(self.lines, 'line')} {self.same:,} have the same output"

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json``."""
        atomic_files.write_json(folder / "parity.json", {"to": to, **self._asdict()})


def write_task_run(run: RunFolder, which: str | None, folder: Path) -> None:
    """Write the checkpoint called ``which`` (see ``RunFolder.weights_path``) to a folder that is empty or absent."""
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
    validation = _validation(run, chosen)
    if validation:  # predictors may go by it, as a classifier does by its temperature
        line = json.dumps({"step": found.step, "validation": validation}) + "\n"
        (folder / "metrics.jsonl").write_text(line, encoding="utf-8")
    atomic_files.remove_file(folder / "environment.json")  # describes the machine that exports
    parameters = sum(tensor.numel() for tensor in weights.values())
    write_shared_card(run, weights=str(chosen), parameters=parameters, validation=validation, folder=folder)


def compare_outputs(
    run: RunFolder, which: str | None, folder: Path, lines: Sequence[str] | None, name: str = "--source"
) -> SameOutputs:
    """Outputs of the run and of the folder, for the same lines and, where they are drawn, the same seed.

    Without lines those of the task's own sample that the model can read. DataError for a line that it cannot.
    """
    told = []
    if lines is None:
        predictor = load(run.path, checkpoint=which, device="cpu")
        lines = [line for line in run.task.sample_lines if read_inputs(predictor, [line], name=name)[1] is None]
    for path, chosen in ((run.path, which), (folder, None)):
        predictor = load(path, checkpoint=chosen, device="cpu")
        inputs, error = read_inputs(predictor, list(lines), name=name)
        if error is not None:
            raise error
        drawn = {"seed": 1} if "seed" in inspect.signature(predictor.__call__).parameters else {}
        told.append([predictor.write(each, json=True) for each in predictor(inputs, **drawn)])
    return SameOutputs(len(lines), sum(one == other for one, other in zip(*told, strict=True)))


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
