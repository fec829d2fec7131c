"""Edges held out of a graph, and pairs without an edge drawn beside them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.randomness import example_generator
from regard.core.task import ExampleIndices
from regard.data.graphs import Graph
from regard.errors import DataError
from regard.tasks.graph_batch import GraphTensors, OneGraph
from regard.tasks.links.config import LinksDataConfig

STREAM = 5  # of draws
Numbers = npt.NDArray[np.int64]


class EdgeParts(NamedTuple):
    """The edges (number, 2) of each part, each once."""

    train: Numbers
    valid: Numbers
    test: Numbers


def dealt_edges(graph: Graph, data: LinksDataConfig) -> EdgeParts:
    """Deal the edges of a graph to three parts: a function of the graph and ``data.draw``."""
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
    """A graph, and pairs of its nodes: first those with an edge, then as many without one."""

    inputs: GraphTensors
    ends: Tensor  # (2, candidates)
    exists: Tensor  # (candidates,) bool
    index: Tensor  # type: ignore[assignment]  # (1,); hides tuple.index
    weight: float


class LinkExamples(OneGraph):
    """Edges of one part with as many pairs without an edge, drawn at each visit; for evaluation always the same ones.

    ``seen``: the graph that nodes look along. ``whole``: the graph of all edges, none of which is drawn.
    """

    def __init__(self, seen: Graph, whole: Graph, edges: Numbers, *, seed: int, stream: int) -> None:
        super().__init__(seen, 2 * len(edges))
        self.edges, self._seed, self._stream = edges, seed, stream
        self._codes = whole.pairs[0] * whole.nodes + whole.pairs[1]  # sorted, each node with itself among them
        if len(self._codes) == whole.nodes**2:
            raise DataError("every two nodes have an edge", where=whole.where, why="there is nothing to tell apart")

    def collate(self, examples: ExampleIndices) -> LinkBatch:
        ends = np.concatenate([self.edges, self._strangers(int(examples.visit[0]))]).T
        exists = torch.arange(ends.shape[1]) < len(self.edges)
        pairs = torch.from_numpy(np.ascontiguousarray(ends))
        return LinkBatch(self.tensors, pairs, exists, self.index, float(self.weight))

    def _strangers(self, visit: int) -> Numbers:
        """Return as many pairs as there are edges, drawn evenly from all without one; a pair may come twice."""
        draw, nodes, drawn = example_generator(self._seed, self._stream, 0, visit), self.graph.nodes, []
        missing = len(self.edges)
        while missing:
            code = draw.integers(0, nodes * nodes, 2 * missing + 8)
            place = np.searchsorted(self._codes, code).clip(max=len(self._codes) - 1)
            drawn.append(code[self._codes[place] != code][:missing])
            missing -= len(drawn[-1])
        codes = np.concatenate(drawn) if drawn else np.zeros(0, np.int64)
        return np.stack([codes // nodes, codes % nodes], 1)
