"""A task with the small corpus of its ``sample``, for the laws of tasks."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.predictor import Predictor
from regard.core.task import (
    Batch,
    Data,
    ExampleIndices,
    LossTerms,
    Task,
)
from regard.runs.config import load_config
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.training.optim import Optimizer
from regard.training.progress import NullReporter
from regard.training.setup import prepare, set_up
from regard.training.trainer import Trainer

LEARNING = 8  # updates of a predictor's network
UPDATES = 6  # updates of interrupted runs
TRAINING = {
    "steps": UPDATES, "learning_rate": 0.01, "warmup": 0, "schedule": "constant", "precision": "float32", "threads": 1,
    "shards": 2, "validate_every": 2, "save_every": 2,
}  # fmt: skip


@dataclass
class TaskCase:
    """A task with the small corpus that its ``sample`` writes.

    Attributes:
        task: the task.
        kind: its name.
        folder: temporary folder, removed with the case.
        runs: the number of its runs so far.
    """

    task: Task
    kind: str
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp()))
    runs: int = 0

    def __post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    @cached_property
    def tables(self) -> dict[str, Any]:
        """The config as nested tables: that of the sample, with the training settings of these laws."""
        tables = dict(self.task.sample(self.folder))
        return tables | {"task": {"kind": self.kind}, "train": {**tables.get("train", {}), **TRAINING}}

    @cached_property
    def config(self) -> RunConfig:
        return load_config(self.tables)

    def run(self) -> RunFolder:
        """Return a new run folder."""
        self.runs += 1
        return _with_task(_Run.create(self.folder / f"run-{self.runs}", self.config), self.task)

    @cached_property
    def data(self) -> Data:
        return prepare(self.run(), log=lambda message: None)

    @cached_property
    def undisturbed(self) -> tuple[RunFolder, dict[str, Tensor]]:
        """An uninterrupted run, and its weights."""
        run = self.run()
        return run, trained(self, run)

    def net(self) -> nn.Module:
        """Return a network in float64 and evaluation mode; the same one each time."""
        torch.manual_seed(3)
        return self.task.build(self.config, self.data.spec).double().eval()

    @cached_property
    def predictor(self) -> Predictor[Any]:
        """A predictor with a briefly trained network, so its outputs differ."""
        net = self.net().float().train()
        optimizer = Optimizer(net)
        for update in self.data.train.batches(0)[:LEARNING]:
            terms, batch = self.terms(net, update)
            (terms.minimized / batch.weight).backward()
            optimizer.step(0.01)
        return self.task.predictor(net, self.data.codecs, self.config)

    def terms(self, net: nn.Module, examples: ExampleIndices, part: str = "train") -> tuple[LossTerms, Batch]:
        """Return the loss of these examples, and their batch."""
        batch = self.part(part).collate(examples)
        return self.task.objective(self.config)(net, batch, ()), batch

    @cached_property
    def held_out(self) -> list[TaskCase]:
        """Cases with equal training data and different held-out data."""
        folder = self.folder / "held-out"
        folder.mkdir()
        sample = dict(self.task.sample(folder))
        write = self.task.held_out_samples or _fewer_validated
        return [
            TaskCase(replace(self.task, sample=partial(_return_tables, tables)), self.kind)
            for tables in write(folder, sample)
        ]

    def part(self, part: str) -> Any:
        return self.data.train if part == "train" else self.data.valid or self.data.train

    def reopened(self, run: RunFolder) -> RunFolder:
        """Open a run of this case again from its folder."""
        return _with_task(_Run.open(run.path), self.task)


class _Run(RunFolder):
    """A run folder with a given task, instead of one found by name."""

    _task: Task

    @property
    def task(self) -> Task:
        return self._task


def _with_task(run: RunFolder, task: Task) -> RunFolder:
    assert isinstance(run, _Run)
    run._task = task
    return run


def trained(case: TaskCase, run: RunFolder, stop: int | None = None) -> dict[str, Tensor]:
    """Return the weights of a run after training, or after ``stop`` updates."""
    ready = set_up(run, log=lambda message: None)
    trainer = Trainer(
        run, ready.net, ready.data, steps=ready.steps, reporter=NullReporter(),
        interrupted=lambda: stop is not None and trainer.progress.step >= stop,
    )  # fmt: skip
    trainer.resume()
    trainer.fit()
    return {name: tensor.clone() for name, tensor in trainer.optimizer.weights().items()}


def _fewer_validated(folder: Path, sample: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the sample, and a copy with own validation files that lack the last third of their lines."""
    valid = []
    for number, corpus in enumerate(sample["data"].get("valid") or sample["data"]["train"]):
        source = Path(corpus["source"])
        path = folder / f"validation-{number}" / source.name
        path.parent.mkdir()
        lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[: len(lines) - len(lines) // 3]), encoding="utf-8")
        valid.append({**corpus, "source": str(path)})
    return [sample, {**sample, "data": {**sample["data"], "valid": valid}}]


def _return_tables(tables: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    return tables
