"""Batches of some nodes with their neighborhoods: memory holds a batch, not the graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.task import ExampleIndices
from regard.data.graphs import Graph
from regard.data.neighbors import Neighborhoods, concatenated
from regard.models.graph.layers import LayerSizes, NodeFeatures
from regard.tasks.graph_batch import GraphTensors, NodeBatch

STREAM = 6  # of the order of nodes


class SomeNodes:
    """Neighborhoods of a graph as tensors. The features of a node are found without reading those of all."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self._neighborhoods = graph, Neighborhoods(graph)
        self._start = np.searchsorted(graph.entries[0], np.arange(graph.nodes + 1)) if graph.file is None else None

    def inputs(
        self, nodes: npt.NDArray[np.int64], most: Sequence[int | None], draw: tuple[int, int] = (0, 0)
    ) -> GraphTensors:
        """Return what a network reads for ``nodes``, which all differ: see ``Neighborhoods.of``."""
        read = self._neighborhoods.of(nodes, most, draw)
        pairs = torch.from_numpy(np.concatenate([hop.pairs for hop in read.hops], 1))
        degree = torch.from_numpy(np.concatenate([hop.degree for hop in read.hops]))
        sizes = tuple(LayerSizes(hop.pairs.shape[1], hop.queries, hop.keys) for hop in read.hops)
        return GraphTensors(self._features(read.nodes), pairs, degree, sizes)

    def _features(self, nodes: npt.NDArray[np.int64]) -> NodeFeatures | Tensor:
        graph = self.graph
        if self._start is None:
            assert graph.file is not None
            return torch.from_numpy(graph.file.rows(nodes))
        counts = self._start[nodes + 1] - self._start[nodes]
        place = concatenated(self._start[nodes], counts)
        entries = np.stack([np.repeat(np.arange(len(nodes)), counts), graph.entries[1, place]])
        values = torch.from_numpy(graph.values[place])
        return NodeFeatures(torch.from_numpy(entries), values, len(nodes), graph.features)


class SampledNodes:
    """The ``chosen`` nodes of a graph as ``core.task.Examples``, ``batch`` of them at a time.

    In training a node of layer l looks at no more than ``most[l]`` neighbors, drawn by (seed, epoch, node); in
    evaluation at all. So a node's loss depends on no other node of its batch.
    """

    def __init__(
        self, graph: Graph, chosen: npt.NDArray[np.bool_], *, batch: int, most: Sequence[int | None], seed: int
    ) -> None:
        self.graph, self._nodes = graph, np.flatnonzero(chosen)
        self._batch, self._most, self._seed = batch, tuple(most), seed
        self._some = SomeNodes(graph)

    def __len__(self) -> int:
        return len(self._nodes)

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """Return all nodes in an order drawn by (seed, epoch), ``batch`` at a time; for evaluation in their own."""
        order = np.arange(len(self))
        if epoch is not None:
            order = np.random.default_rng((self._seed, STREAM, epoch)).permutation(order)
        parts = [order[begin : begin + self._batch] for begin in range(0, len(order), self._batch)]
        return [ExampleIndices(part, np.full_like(part, 0 if epoch is None else epoch + 1)) for part in parts]

    def token_counts(self) -> npt.NDArray[np.int64]:
        return np.ones(len(self), np.int64)

    def collate(self, examples: ExampleIndices) -> NodeBatch:
        nodes, visit = self._nodes[examples.index], int(examples.visit[0])
        most = self._most if visit else [None] * len(self._most)
        inputs, labels = self._some.inputs(nodes, most, (self._seed, visit)), torch.from_numpy(self.graph.labels[nodes])
        return NodeBatch(inputs, torch.arange(len(nodes)), labels, torch.from_numpy(examples.index), float(len(nodes)))

    def where(self, index: int) -> str:
        return f"{self.graph.where}, node {self.graph.name(int(self._nodes[index]))}"
