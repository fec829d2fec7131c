"""A task that carries state: a recurrent language model over documents that lie in lanes, one segment after another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.task import Card, Carry, CodecsAndSpec, Data, ExampleIndices, LossTerms, Task
from regard.models.dropout import Dropout
from regard.runs.run_config import DataSection, RunConfig

from .plain_predictor import LINES, word_counter

LANES, SEGMENT, TYPES = 3, 4, 32
DOCUMENTS = ["the hare and the tortoise", "a fox", "three bears sat down", "once upon a time", "rain in may", "no end"]


class LanesConfig(RunConfig):
    """A file of one document a line and a width."""

    data: DataSection
    hidden: int = 6

    @property
    def width(self) -> int:
        return self.hidden

    @property
    def layers(self) -> int:
        return 1

    @property
    def summary(self) -> str:
        return f"recurrent language model, {self.hidden} units"


CONFIG = LanesConfig


class SegmentBatch(NamedTuple):
    previous: Tensor  # (rows, SEGMENT), the character before each; 0 before the first of a document
    target: Tensor  # (rows, SEGMENT)
    valid: Tensor  # (rows, SEGMENT) bool
    fresh: Tensor  # (rows,) bool: a document begins
    index: Tensor  # type: ignore[assignment]  # (rows,)
    weight: float


class Lanes:
    """The segments of documents as examples; a batch is one segment of each lane."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.seed = path, seed
        lines = path.read_text("utf-8").splitlines()
        self.documents = [torch.tensor([1 + ord(letter) % (TYPES - 1) for letter in line]) for line in lines]
        self.segments = [(n, at) for n, each in enumerate(self.documents) for at in range(0, len(each), SEGMENT)]

    def __len__(self) -> int:
        return len(self.segments)

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """Documents go to the lane that has least; the longest lane is the first, so that the last end first."""
        order = np.arange(len(self.documents))
        if epoch is not None:
            order = np.random.default_rng((self.seed, epoch)).permutation(order)
        lanes: list[list[int]] = [[] for _ in range(LANES)]
        for document in order:
            own = [number for number, (of, _) in enumerate(self.segments) if of == document]
            min(lanes, key=len).extend(own)
        lanes.sort(key=len, reverse=True)
        rows = [np.array([lane[at] for lane in lanes if at < len(lane)]) for at in range(len(lanes[0]))]
        return [ExampleIndices(index, np.full(len(index), epoch or 0)) for index in rows]

    def token_counts(self) -> np.ndarray:
        return np.array([len(self.documents[n][at : at + SEGMENT]) for n, at in self.segments])

    def collate(self, examples: ExampleIndices) -> SegmentBatch:
        whole = [(self.documents[n], at) for n, at in (self.segments[index] for index in examples.index)]
        target = torch.stack([nn.functional.pad(each, (0, SEGMENT))[at : at + SEGMENT] for each, at in whole])
        previous = torch.stack([nn.functional.pad(each, (1, SEGMENT))[at : at + SEGMENT] for each, at in whole])
        fresh = torch.tensor([at == 0 for _, at in whole])
        index = torch.from_numpy(examples.index.copy())
        return SegmentBatch(previous, target, target > 0, fresh, index, float((target > 0).sum()))

    def where(self, index: int) -> str:
        return f"{self.path}:{self.segments[index][0] + 1}"


class Recurrent(nn.Module):
    """A cell that goes on with the state of the segment before."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding, self.cell = nn.Embedding(TYPES, width), nn.GRUCell(width, width)
        self.output, self.dropout = nn.Linear(width, TYPES), Dropout(0.2)

    def forward(self, batch: SegmentBatch, carry: Carry) -> tuple[Tensor, Carry]:
        x = self.dropout(self.embedding(batch.previous))
        (state,) = carry or (torch.zeros_like(x[:, 0]),)
        state, read = state.masked_fill(batch.fresh[:, None], 0.0), []
        for column in range(x.shape[1]):
            state = torch.where(batch.valid[:, column, None], self.cell(x[:, column], state), state)
            read.append(state)
        return self.output(torch.stack(read, 1)), (state,)


def objective(config: LanesConfig) -> Any:
    def loss(net: nn.Module, batch: SegmentBatch, carry: Carry = ()) -> LossTerms:
        logits, carry = net(batch, carry)
        nll = nn.functional.cross_entropy(logits.transpose(1, 2), batch.target, reduction="none")[batch.valid].sum()
        return LossTerms(nll, {"nll": nll.detach(), "characters": batch.valid.sum()}, carry)

    return loss


def prepare(run: Any, say: Any, progress: Any = None) -> Data:
    examples = Lanes(Path(run.config.data.train[0]["source"]), run.config.seed)
    return Data(examples, examples, None, {"types": TYPES}, {})


def sample(folder: Path) -> Mapping[str, Any]:
    (folder / "documents.txt").write_text("\n".join(DOCUMENTS) + "\n", encoding="utf-8")
    return {"data": {"train": [{"source": str(folder / "documents.txt")}]}}


KIND = f"{__name__}:TASK"
TASK = Task(
    name="lanes",
    open=lambda run: CodecsAndSpec(None, {"types": TYPES}),
    prepare=prepare,
    build=lambda config, spec: Recurrent(config.hidden),
    small_spec={"types": TYPES},
    objective=objective,
    predictor=word_counter,
    compute_metrics=lambda sums: {"loss": float(sums["nll"]) / float(sums["characters"])},
    metrics={},
    sample_lines=LINES,
    card=Card("text-generation", "print(model)", "info {run}"),
    sample=sample,
)
