"""Edges held out of a graph, and pairs without an edge drawn beside them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.randomness import example_generator
from regard.core.task import ExampleIndices
from regard.data.graphs import Graph, edge_pairs
from regard.errors import DataError
from regard.models.graph.layers import NodeFeatures
from regard.tasks.graph_batch import GraphTensors, graph_tensors
from regard.tasks.links.config import LinksDataConfig

__all__ = ["EdgeParts", "LinkBatch", "LinkExamples", "dealt_edges"]

STREAM = 5  # of draws
Numbers = npt.NDArray[np.int64]


class EdgeParts(NamedTuple):
    """The edges (number, 2) of each part, each once."""

    train: Numbers
    valid: Numbers
    test: Numbers


def dealt_edges(graph: Graph, data: LinksDataConfig) -> EdgeParts:
    """The edges of a graph in three parts: a function of the graph and ``data.draw``."""
    apart = graph.pairs[0] < graph.pairs[1] if not data.directed else graph.pairs[0] != graph.pairs[1]
    edges = graph.pairs[:, apart].T
    order = np.random.default_rng([data.draw, STREAM]).permutation(len(edges))
    valid, test = (round(share * len(edges)) for share in (data.valid_share, data.test_share))
    if min(valid, test, len(edges) - valid - test) < 1:
        why = f"{valid:,} of {len(edges):,} would be to validate on and {test:,} to test on"
        help = "give it more edges, or larger data.valid_share and data.test_share"
        raise DataError("the graph has too few edges to hold some out", where=graph.where, why=why, help=help)
    parts = np.split(edges[order], [valid, valid + test])
    return EdgeParts(np.unique(parts[2], axis=0), parts[0], parts[1])


class LinkBatch(NamedTuple):
    """A graph, and pairs of its nodes of which half have an edge."""

    entries: Tensor  # (2, entries): node and feature of what is not 0
    values: Tensor  # (entries,)
    pairs: Tensor  # (2, edges) that nodes look along
    degree: Tensor  # (edges,)
    ends: Tensor  # (2, candidates)
    exists: Tensor  # (candidates,) bool
    index: Tensor  # type: ignore[assignment]  # (1,); hides tuple.index
    weight: float
    nodes: int
    features: int

    def inputs(self) -> GraphTensors:
        """Inputs of the network."""
        return GraphTensors(NodeFeatures(self.entries, self.values, self.nodes, self.features), self.pairs, self.degree)


class LinkExamples:
    """Edges of one part as the only example of ``core.task.Examples``, beside as many pairs without an edge.

    ``seen``: the graph that nodes look along. ``whole``: that of all edges, of which no drawn pair is one.
    """

    def __init__(self, seen: Graph, whole: Graph, edges: Numbers, *, seed: int, stream: int) -> None:
        self.graph, self.edges = seen, edges
        self._seed, self._stream = seed, stream
        self._tensors = graph_tensors(seen)
        self._codes = whole.pairs[0] * whole.nodes + whole.pairs[1]  # sorted, each node with itself among them
        if len(self._codes) == whole.nodes**2:
            raise DataError("every two nodes have an edge", where=whole.where, why="there is nothing to tell apart")

    def __len__(self) -> int:
        return 1

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """The graph, once an epoch, with pairs drawn anew; for evaluation always the same ones."""
        return [ExampleIndices(np.zeros(1, np.int64), np.array([0 if epoch is None else epoch + 1]))]

    def token_counts(self) -> Numbers:
        return np.array([2 * len(self.edges)])

    def collate(self, examples: ExampleIndices) -> LinkBatch:
        features, pairs, degree = self._tensors
        ends = np.concatenate([self.edges, self._strangers(int(examples.visit[0]))]).T
        exists = torch.arange(ends.shape[1]) < len(self.edges)
        index = torch.zeros(1, dtype=torch.int64)
        return LinkBatch(
            features.pairs, features.values, pairs, degree, torch.from_numpy(np.ascontiguousarray(ends)), exists, index,
            float(ends.shape[1]), self.graph.nodes, self.graph.features,
        )  # fmt: skip

    def _strangers(self, visit: int) -> Numbers:
        """As many pairs as there are edges, evenly of all that have none; the same one may come twice."""
        draw, nodes, found = example_generator(self._seed, self._stream, 0, visit), self.graph.nodes, []
        missing = len(self.edges)
        while missing:
            code = draw.integers(0, nodes * nodes, 2 * missing + 8)
            place = np.searchsorted(self._codes, code).clip(max=len(self._codes) - 1)
            found.append(code[self._codes[place] != code][:missing])
            missing -= len(found[-1])
        codes = np.concatenate(found) if found else np.zeros(0, np.int64)
        return np.stack([codes // nodes, codes % nodes], 1)

    def where(self, index: int) -> str:
        return self.graph.where


def along(graph: Graph, edges: Numbers, *, directed: bool) -> Numbers:
    """``Graph.pairs`` of these edges alone."""
    return edge_pairs(edges, graph.nodes, directed=directed)
