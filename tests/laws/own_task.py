"""A task of a user's own, as ``docs/how-to/add-a-task.md`` shows it: the mean of a line of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.task import Card, CodecsAndSpec, Data, ExampleIndices, LossTerms, Metric, Task
from regard.runs.config import DataSection, RunConfig


class NumbersConfig(RunConfig):
    """A file of lines ``1 2 3`` and a width."""

    metric_names = ("error",)

    data: DataSection
    hidden: int = 8

    @property
    def width(self) -> int:
        return self.hidden

    @property
    def layers(self) -> int:
        return 1

    @property
    def summary(self) -> str:
        return f"mean of numbers, {self.hidden} units"


CONFIG = NumbersConfig


class NumbersBatch(NamedTuple):
    numbers: Tensor  # (rows, length), zeros beyond the end
    valid: Tensor  # (rows, length) bool
    index: Tensor  # type: ignore[assignment]  # (rows,)
    weight: float


class Lines:
    """The lines of one file as examples, two to a batch."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.seed = path, seed
        self.lines = [[float(word) for word in line.split()] for line in path.read_text("utf-8").splitlines()]

    def __len__(self) -> int:
        return len(self.lines)

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        index = np.arange(len(self))
        if epoch is not None:
            index = np.random.default_rng((self.seed, epoch)).permutation(index)
        visit = np.full(len(index), epoch or 0)
        return [ExampleIndices(index[at : at + 2], visit[at : at + 2]) for at in range(0, len(index), 2)]

    def token_counts(self) -> np.ndarray:
        return np.ones(len(self), np.int64)

    def collate(self, examples: ExampleIndices) -> NumbersBatch:
        rows = [torch.tensor(self.lines[index]) for index in examples.index]
        numbers = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        valid = nn.utils.rnn.pad_sequence([torch.ones(len(row), dtype=torch.bool) for row in rows], batch_first=True)
        return NumbersBatch(numbers, valid, torch.from_numpy(examples.index.copy()), float(len(rows)))

    def where(self, index: int) -> str:
        return f"{self.path}:{index + 1}"


class Net(nn.Module):
    """Attention over the numbers, by their own values, and what it reads."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.score, self.value = nn.Linear(1, width), nn.Linear(width, 1), nn.Linear(1, 1)

    def forward(self, numbers: Tensor, valid: Tensor) -> Tensor:
        x = numbers[..., None].to(self.value.weight.dtype)
        energy = self.score(torch.tanh(self.inner(x)))[..., 0].masked_fill(~valid, -torch.inf)
        return (energy.softmax(-1) * self.value(x)[..., 0]).sum(-1)


def prepare(run: Any, say: Any, progress: Any = None) -> Data:
    train, valid = (
        Lines(Path(corpora[0]["source"]), run.config.seed)
        for corpora in (run.config.data.train, run.config.data.valid or run.config.data.train)
    )
    return Data(train, valid, None, {"columns": 1}, {})


def objective(config: NumbersConfig) -> Any:
    def loss(net: nn.Module, batch: NumbersBatch, carry: Any = ()) -> LossTerms:
        numbers = batch.numbers.to(next(net.parameters()).dtype)
        wanted = (numbers * batch.valid).sum(-1) / batch.valid.sum(-1)
        squared = (net(numbers, batch.valid) - wanted).square().sum()
        return LossTerms(squared, {"squared": squared.detach(), "lines": batch.valid.any(-1).sum()})

    return loss


def sample(folder: Path) -> Mapping[str, Any]:
    (folder / "numbers.txt").write_text("1 2 3\n4 0\n2\n5 5 1 1\n0 3\n", encoding="utf-8")
    return {"data": {"train": [{"source": str(folder / "numbers.txt")}]}}


def build(config: NumbersConfig, spec: Mapping[str, int]) -> Net:
    return Net(config.hidden)


def predictor(net: nn.Module, codecs: None, config: NumbersConfig, engine: str | None = None) -> Any:
    def mean(row: list[float]) -> float:
        with torch.no_grad():
            return float(net(torch.tensor([row]), torch.ones(1, len(row), dtype=torch.bool)))

    return mean


TASK = Task(
    name="mean",
    open=lambda run: CodecsAndSpec(None, {"columns": 1}),
    prepare=prepare,
    build=build,
    small_spec={"columns": 1},
    objective=objective,
    predictor=predictor,
    compute_metrics=lambda sums: {"loss": float(sums["squared"]) / float(sums["lines"])},
    metrics={"error": Metric(lower_is_better=True)},
    decode=lambda predictor, config, names, interrupted: {},
    card=Card("tabular-regression", "print(model([1.0, 2.0]))", "info {run}"),
    sample=sample,
)
