"""Classes of the nodes of one graph, in one full batch: one example, one shard.

A graph is one row: its nodes, edges and labels lie in dimension 1. Training and validation are the same graph with the
loss over other nodes, and the measures hold a confusion matrix.
"""

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

CLASSES = 2


class GraphConfig(RunConfig):
    """A file of lines ``class neighbor neighbor …``, a node each, and a width."""

    data: DataSection
    hidden: int = 8

    @property
    def width(self) -> int:
        return self.hidden

    @property
    def layers(self) -> int:
        return 2

    @property
    def summary(self) -> str:
        return f"graph attention, {self.hidden} units"


CONFIG = GraphConfig


class GraphBatch(NamedTuple):
    features: Tensor  # (1, nodes, nodes): which node it is
    edges: Tensor  # (1, edges, 2): from, to
    label: Tensor  # (1, nodes)
    asked: Tensor  # (1, nodes) bool: which nodes the loss is over
    index: Tensor  # type: ignore[assignment]  # (1,)
    weight: float


class Graph:
    """The graph as the only example, asked of some of its nodes."""

    def __init__(self, path: Path, thirds: tuple[int, ...]) -> None:
        self.path = path
        rows = [[int(word) for word in line.split()] for line in path.read_text("utf-8").splitlines()]
        self.label = torch.tensor([row[0] for row in rows])
        pairs = [(other, node) for node, row in enumerate(rows) for other in (node, *row[1:])]
        self.edges, self.asked = torch.tensor(pairs), torch.tensor([n % 3 in thirds for n in range(len(rows))])

    def __len__(self) -> int:
        return 1

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        return [ExampleIndices(np.array([0]), np.array([epoch or 0]))]

    def token_counts(self) -> np.ndarray:
        return np.array([int(self.asked.sum())])

    def collate(self, examples: ExampleIndices) -> GraphBatch:
        whole = torch.eye(len(self.label)), self.edges, self.label, self.asked, torch.tensor(0)
        return GraphBatch(*(each[None] for each in whole), weight=float(self.asked.sum()))

    def where(self, index: int) -> str:
        return str(self.path)


class GraphAttention(nn.Module):
    """Two layers of attention over edges (Veličković et al. 2018): memory grows with edges, not with nodes squared."""

    def __init__(self, nodes: int, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(nodes, width), nn.Linear(width, CLASSES)
        self.scores, self.dropout = nn.ModuleList([nn.Linear(2 * width, 1), nn.Linear(2 * CLASSES, 1)]), Dropout(0.1)

    def forward(self, features: Tensor, edges: Tensor) -> Tensor:
        hidden = self.dropout(torch.relu(self._gathered(self.inner(features), edges, self.scores[0])))
        return self._gathered(self.outer(hidden), edges, self.scores[1])

    def _gathered(self, x: Tensor, edges: Tensor, score: nn.Module) -> Tensor:
        sender, receiver = edges.unbind(-1)
        pair = torch.cat([x[sender], x[receiver]], -1)
        weight = nn.functional.leaky_relu(score(pair)[:, 0], 0.2).exp()
        total = torch.zeros_like(x[:, 0]).index_add(0, receiver, weight)
        return torch.zeros_like(x).index_add(0, receiver, (weight / total[receiver])[:, None] * x[sender])


def objective(config: GraphConfig) -> Any:
    def loss(net: nn.Module, batch: GraphBatch, carry: Carry = ()) -> LossTerms:
        features = batch.features[0].to(next(net.parameters()).dtype)
        logits, asked = net(features, batch.edges[0])[batch.asked[0]], batch.label[batch.asked]
        nll = nn.functional.cross_entropy(logits, asked, reduction="sum")
        confusion = torch.zeros(CLASSES, CLASSES, dtype=torch.int64)
        confusion.index_put_((asked, logits.argmax(-1)), torch.ones_like(asked), accumulate=True)
        return LossTerms(nll, {"nll": nll.detach(), "confusion": confusion})

    return loss


def compute_metrics(sums: Mapping[str, Tensor]) -> dict[str, float]:
    nodes = float(sums["confusion"].sum())
    return {"loss": float(sums["nll"]) / nodes, "accuracy": float(sums["confusion"].trace()) / nodes}


def prepare(run: Any, say: Any, progress: Any = None) -> Data:
    train, valid = (Graph(Path(run.config.data.train[0]["source"]), thirds) for thirds in ((0, 1), (2,)))
    return Data(train, valid, None, {"nodes": len(train.label)}, {})


def sample(folder: Path) -> Mapping[str, Any]:
    """Two rings of six nodes, one of each class, with one edge between them."""
    lines = [f"{n // 6} {n // 6 * 6 + (n + 1) % 6} {n // 6 * 6 + (n - 1) % 6}" for n in range(12)]
    (folder / "graph.txt").write_text("\n".join([*lines[:-1], lines[-1] + " 0"]) + "\n", encoding="utf-8")
    return {"data": {"train": [{"source": str(folder / "graph.txt")}]}}


TASK = Task(
    name="graph",
    open=lambda run: CodecsAndSpec(None, {"nodes": 12}),
    prepare=prepare,
    build=lambda config, spec: GraphAttention(spec["nodes"], config.hidden),
    small_spec={"nodes": 4},
    objective=objective,
    predictor=word_counter,
    compute_metrics=compute_metrics,
    metrics={},
    sample_lines=LINES,
    card=Card("graph-ml", "print(model)", "info {run}"),
    sample=sample,
)
