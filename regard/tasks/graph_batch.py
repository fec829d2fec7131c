"""One graph as a batch: its nodes in full, and those that are asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.task import ExampleIndices
from regard.data.graphs import UNLABELLED, Graph
from regard.models.graph.layers import NodeFeatures

__all__ = ["GraphTensors", "NodeBatch", "WholeGraph", "graph_tensors"]


class GraphTensors(NamedTuple):
    """Inputs of a network, the same tensors for as long as the graph is used: its edges are sorted but once."""

    features: NodeFeatures
    pairs: Tensor  # (2, edges)
    degree: Tensor  # (edges,)


def graph_tensors(graph: Graph, device: torch.device | None = None) -> GraphTensors:
    """The tensors of a graph."""

    def tensor(array: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    entries, values = (graph.entries, graph.values) if graph.file is None else graph.file.entries()
    features = NodeFeatures(tensor(entries), tensor(values), graph.nodes, graph.features)
    return GraphTensors(features, tensor(graph.pairs), tensor(graph.degree))


class NodeBatch(NamedTuple):
    """One graph. Its nodes are no rows: a graph is one example, however many nodes the loss is over."""

    entries: Tensor  # (2, entries): node and feature of what is not 0
    values: Tensor  # (entries,)
    pairs: Tensor  # (2, edges)
    degree: Tensor  # (edges,)
    label: Tensor  # (nodes,), UNLABELLED where the loss is not over a node
    asked: Tensor  # (nodes,) bool: which nodes the loss is over
    index: Tensor  # type: ignore[assignment]  # (1,); hides tuple.index
    weight: float
    features: int

    def inputs(self) -> GraphTensors:
        """Inputs of the network."""
        features = NodeFeatures(self.entries, self.values, len(self.label), self.features)
        return GraphTensors(features, self.pairs, self.degree)


class WholeGraph:
    """A graph as the only example of ``core.task.Examples``, asked of some of its nodes."""

    def __init__(self, graph: Graph, asked: npt.NDArray[np.bool_]) -> None:
        self.graph, self.asked = graph, asked
        features, pairs, degree = graph_tensors(graph)
        label, chosen = torch.from_numpy(np.where(asked, graph.labels, UNLABELLED)), torch.from_numpy(asked)
        self._batch = NodeBatch(
            features.pairs, features.values, pairs, degree, label, chosen, torch.zeros(1, dtype=torch.int64),
            float(asked.sum()), graph.features,
        )  # fmt: skip

    def __len__(self) -> int:
        return 1

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """The graph, once an epoch."""
        return [ExampleIndices(np.zeros(1, np.int64), np.array([0 if epoch is None else epoch + 1]))]

    def token_counts(self) -> npt.NDArray[np.int64]:
        return np.array([int(self.asked.sum())])

    def collate(self, examples: ExampleIndices) -> NodeBatch:
        return self._batch

    def where(self, index: int) -> str:
        return self.graph.where
