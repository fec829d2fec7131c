"""Batches of some nodes with what they look at: training and answers in the memory of a batch, not of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.task import ExampleIndices
from regard.data.graphs import Graph
from regard.data.neighbours import Neighbourhoods, ReadNodes, concatenated
from regard.models.graph.layers import LayerSizes, NodeFeatures

__all__ = ["Inputs", "SampledBatch", "SampledNodes", "SomeNodes"]

STREAM = 6  # of the order of nodes


class Inputs(NamedTuple):
    """Inputs of a network that give the outputs of some nodes; ``features`` of all that they look at."""

    features: NodeFeatures | Tensor
    pairs: Tensor  # (2, edges): those of each layer one after the other
    degree: Tensor  # (edges,)
    sizes: tuple[LayerSizes, ...]

    def to(self, device: torch.device) -> Inputs:
        """The same on another device."""
        x = self.features
        moved = (
            x.to(device) if isinstance(x, Tensor) else x._replace(pairs=x.pairs.to(device), values=x.values.to(device))
        )
        return Inputs(moved, self.pairs.to(device), self.degree.to(device), self.sizes)


class SomeNodes:
    """Neighbourhoods of a graph as tensors; entries of features are found by node without reading all."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self._neighbourhoods = graph, Neighbourhoods(graph)
        self._start = np.searchsorted(graph.entries[0], np.arange(graph.nodes + 1)) if graph.file is None else None

    def inputs(
        self, nodes: npt.NDArray[np.int64], most: Sequence[int | None], draw: tuple[int, int] = (0, 0)
    ) -> Inputs:
        """Tensors that a network reads for these ``nodes``, all different; see ``Neighbourhoods.of``."""
        found: ReadNodes = self._neighbourhoods.of(nodes, most, draw)
        pairs = torch.from_numpy(np.concatenate([hop.pairs for hop in found.hops], 1))
        degree = torch.from_numpy(np.concatenate([hop.degree for hop in found.hops]))
        sizes = tuple(LayerSizes(hop.pairs.shape[1], hop.queries, hop.keys) for hop in found.hops)
        return Inputs(self._features(found.nodes), pairs, degree, sizes)

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


class SampledBatch(NamedTuple):
    """Nodes of the loss, a row each, and all that they look at."""

    entries: Tensor  # (2, entries): node and feature of what is not 0; none where features are dense
    values: Tensor  # (entries,), or (nodes, features) where features are dense
    pairs: Tensor
    degree: Tensor
    label: Tensor  # (rows,)
    asked: Tensor  # (rows,) bool: all of them
    index: Tensor  # type: ignore[assignment]  # (rows,); hides tuple.index
    weight: float
    features: int
    sizes: tuple[LayerSizes, ...]

    def inputs(self) -> Inputs:
        """Inputs of the network."""
        sparse = NodeFeatures(self.entries, self.values, self.sizes[0].keys, self.features)
        return Inputs(self.values if self.values.dim() == 2 else sparse, self.pairs, self.degree, self.sizes)


class SampledNodes:
    """Labelled nodes of a graph as ``core.task.Examples``, ``batch`` of them at a time.

    In training a node of layer l looks at no more than ``most[l]`` neighbours, drawn by (seed, epoch, node); in
    evaluation at all. So a node's loss depends on none that shares its batch.
    """

    def __init__(
        self, graph: Graph, asked: npt.NDArray[np.bool_], *, batch: int, most: Sequence[int | None], seed: int
    ) -> None:
        self.graph, self.asked = graph, np.flatnonzero(asked)
        self._batch, self._most, self._seed = batch, tuple(most), seed
        self._some = SomeNodes(graph)

    def __len__(self) -> int:
        return len(self.asked)

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """All nodes in an order drawn by (seed, epoch), ``batch`` at a time; for evaluation as they stand."""
        order = np.arange(len(self))
        if epoch is not None:
            order = np.random.default_rng((self._seed, STREAM, epoch)).permutation(order)
        parts = [order[begin : begin + self._batch] for begin in range(0, len(order), self._batch)]
        return [ExampleIndices(part, np.full_like(part, 0 if epoch is None else epoch + 1)) for part in parts]

    def token_counts(self) -> npt.NDArray[np.int64]:
        return np.ones(len(self), np.int64)

    def collate(self, examples: ExampleIndices) -> SampledBatch:
        nodes, visit = self.asked[examples.index], int(examples.visit[0])
        most = self._most if visit else [None] * len(self._most)
        found: Any = self._some.inputs(nodes, most, (self._seed, visit))
        x = found.features
        entries, values = (x.pairs, x.values) if isinstance(x, NodeFeatures) else (x.new_zeros(2, 0).long(), x)
        return SampledBatch(
            entries, values, found.pairs, found.degree, torch.from_numpy(self.graph.labels[nodes]),
            torch.ones(len(nodes), dtype=torch.bool), torch.from_numpy(examples.index), float(len(nodes)),
            self.graph.features, found.sizes,
        )  # fmt: skip

    def where(self, index: int) -> str:
        return f"{self.graph.where}, node {self.graph.name(int(self.asked[index]))}"
