"""A task of a user's own, as ``docs/how-to/add-a-task.md`` shows it: the mean of a line of numbers."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.task import Card, CodecsAndSpec, Data, ExampleIndices, LossTerms, Metric, Task, not_interrupted
from regard.runs.run_config import DataSection, RunConfig


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
    """The lines of files as examples, two to a batch."""

    def __init__(self, paths: Iterable[Path], seed: int) -> None:
        self.seed, self.lines, self.places = seed, list[list[float]](), list[str]()
        for path in paths:
            for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
                self.lines.append([float(word) for word in line.split()])
                self.places.append(f"{path}:{number}")

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
        return self.places[index]


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
        Lines([Path(corpus["source"]) for corpus in corpora], run.config.seed)
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


class Mean:
    """The network at work: rows of numbers in, their means out."""

    def __init__(self, net: nn.Module) -> None:
        self.net = net.eval()

    @torch.no_grad()
    def __call__(self, inputs: Sequence[list[float]]) -> list[float]:
        return [float(self.net(torch.tensor([row]), torch.ones(1, len(row), dtype=torch.bool))) for row in inputs]

    def read(self, line: str) -> list[float]:
        if not line.strip():
            raise ValueError("a blank line has no mean")
        return [float(word) for word in line.split()]

    def write(self, output: float, *, json: bool) -> str:
        return jsonlib.dumps({"mean": output}) if json else f"{output:.4f}"

    def measure(
        self,
        examples: Lines,
        indices: np.ndarray,
        names: Sequence[str],
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> dict[str, Tensor]:
        rows = [examples.lines[index] for index in indices]
        errors = [abs(found - sum(row) / len(row)) for row, found in zip(rows, self(rows), strict=True)]
        return {"errors": torch.tensor(errors).double().sum(), "measured": torch.tensor(float(len(rows)))}


def predictor(net: nn.Module, codecs: None, config: NumbersConfig, engine: str | None = None) -> Mean:
    return Mean(net)


def compute_metrics(sums: Mapping[str, Tensor]) -> dict[str, float]:
    figures = {"loss": float(sums["squared"]) / float(sums["lines"])}
    return figures | ({"error": float(sums["errors"]) / float(sums["measured"])} if "errors" in sums else {})


TASK = Task(
    name="mean",
    open=lambda run: CodecsAndSpec(None, {"columns": 1}),
    prepare=prepare,
    build=build,
    small_spec={"columns": 1},
    objective=objective,
    predictor=predictor,
    compute_metrics=compute_metrics,
    metrics={"error": Metric(lower_is_better=True, by_predictor=True)},
    card=Card("tabular-regression", "print(model([[1.0, 2.0]]))", "predict {run} < in.txt"),
    sample=sample,
    sample_lines=("1 2 3", "4 0", "2"),
)
