"""Batches of nodes with their neighborhoods: only a batch is in memory, not the whole graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.task import ExampleIndices, Indices
from regard.data.graphs import Graph
from regard.data.neighbors import Neighborhoods, ReadNodes, concatenated
from regard.models.graph.layers import LayerSizes, NodeFeatures
from regard.tasks.graph_batch import GraphTensors, NodeBatch

STREAM = 6  # random stream of the order of nodes


class SomeNodes:
    """Neighborhoods in a graph as tensors; only the features of the needed nodes are read."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self._neighborhoods = graph, Neighborhoods(graph)
        self._start = np.searchsorted(graph.entries[0], np.arange(graph.nodes + 1)) if graph.file is None else None

    def inputs(
        self, nodes: npt.NDArray[np.int64], limits: Sequence[int | None], draw: tuple[int, int] = (0, 0)
    ) -> GraphTensors:
        """Return the inputs of a network for different ``nodes``: see ``Neighborhoods.of``."""
        read = self.read(nodes, limits, draw)
        pairs = torch.from_numpy(np.concatenate([hop.pairs for hop in read.hops], 1))
        degree = torch.from_numpy(np.concatenate([hop.degree for hop in read.hops]))
        sizes = tuple(LayerSizes(hop.pairs.shape[1], hop.queries, hop.keys) for hop in read.hops)
        return GraphTensors(self.features(read.nodes), pairs, degree, sizes)

    def read(
        self, nodes: npt.NDArray[np.int64], limits: Sequence[int | None], draw: tuple[int, int] = (0, 0)
    ) -> ReadNodes:
        """Return the nodes and edges that the outputs of different ``nodes`` depend on: see ``Neighborhoods.of``."""
        return self._neighborhoods.of(nodes, limits, draw)

    def features(self, nodes: npt.NDArray[np.int64]) -> NodeFeatures | Tensor:
        """Return the features of these nodes."""
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
    """Nodes of a graph as ``core.task.Examples``, in batches with their neighborhoods.

    In training, a node of layer l attends to at most ``limits[l]`` neighbors, drawn by (seed, epoch, node); in
    evaluation, to all of them. Therefore the loss of a node does not depend on the other nodes of its batch.

    Args:
        graph: the graph.
        chosen: (nodes,) mask of the nodes with a loss.
        batch: the number of nodes with a loss in a batch.
        limits: the maximum number of neighbors by layer; None for all.
        seed: the seed of orders and neighbors.
        wide: (chosen nodes, classes), added to the outputs; None without a wide part.
    """

    def __init__(
        self, graph: Graph, chosen: npt.NDArray[np.bool_], *, batch: int, limits: Sequence[int | None], seed: int,
        wide: Tensor | None = None,
    ) -> None:  # fmt: skip
        self._wide = wide
        self.graph, self._nodes = graph, np.flatnonzero(chosen)
        self._batch, self._limits, self._seed = batch, tuple(limits), seed
        self._some = SomeNodes(graph)

    def __len__(self) -> int:
        return len(self._nodes)

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """Return the batches of all nodes, in an order drawn by (seed, epoch); in their own order for evaluation."""
        order = np.arange(len(self))
        if epoch is not None:
            order = np.random.default_rng((self._seed, STREAM, epoch)).permutation(order)
        parts = [order[begin : begin + self._batch] for begin in range(0, len(order), self._batch)]
        return [ExampleIndices(part, np.full_like(part, 0 if epoch is None else epoch + 1)) for part in parts]

    def token_counts(self) -> npt.NDArray[np.int64]:
        return np.ones(len(self), np.int64)

    def collate(self, examples: ExampleIndices) -> NodeBatch:
        nodes, visit = self._nodes[examples.index], int(examples.visit[0])
        limits = self._limits if visit else [None] * len(self._limits)
        inputs = self._some.inputs(nodes, limits, (self._seed, visit))
        labels = torch.from_numpy(self.graph.labels[nodes])
        index = torch.from_numpy(examples.index)
        wide = None if self._wide is None else self._wide[index]
        return NodeBatch(inputs, torch.arange(len(nodes)), labels, wide, index, float(len(nodes)))

    def target_nodes(self, index: Indices | None) -> Indices:
        """Return the nodes of these examples; None for all."""
        return self._nodes if index is None else self._nodes[index]

    def where(self, index: int) -> str:
        return f"{self.graph.where}, node {self.graph.name(int(self._nodes[index]))}"
