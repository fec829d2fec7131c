"""Neighborhoods of nodes of a graph, full or sampled: the nodes and edges that each layer of a network needs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.randomness import mixed_seed
from regard.data.graphs import Graph

STREAM = 9  # random stream
Numbers = npt.NDArray[np.int64]
Values = npt.NDArray[np.float32]


class Hop(NamedTuple):
    """Edges of one layer: ``pairs`` (2, edges) from its first ``queries`` nodes to all of its ``keys`` nodes.

    ``degree`` (edges,): 1 / √(d_i d_j) of the whole graph, times (d_i − 1) / s if s of the d_i − 1 neighbors were
    sampled. The expected sum over the sample is then the sum over all neighbors (Chen et al. 2018, §3). Degrees count
    self-loops.
    """

    pairs: Numbers
    degree: Values
    queries: int
    keys: int


class ReadNodes(NamedTuple):
    """The ``nodes`` to read, beginning with the requested ones, and one hop for each layer, in the order of layers."""

    nodes: Numbers
    hops: tuple[Hop, ...]


class Neighborhoods:
    """Neighborhoods of the nodes of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @cached_property
    def _start(self) -> Numbers:
        """First edge of each node, and the number of edges."""
        return np.searchsorted(self.graph.pairs[0], np.arange(self.graph.nodes + 1))

    def of(self, nodes: Numbers, limits: Sequence[int | None], draw: tuple[int, int] = (0, 0)) -> ReadNodes:
        """Return the nodes and edges that the distinct ``nodes`` reach over len(``limits``) layers.

        If a node has more neighbors than the limit, a uniform sample without replacement is drawn (Hamilton et al.
        2017, Algorithm 2, sample with replacement from too few). It is a function of ``draw``, the layer and the node,
        and does not depend on the other requested nodes. Cost: one random number for each edge of a node with more
        neighbors than the limit.

        Args:
            nodes: (nodes,), distinct.
            limits: maximum number of neighbors besides the node itself, from the hop of ``nodes`` outward; None for
                all.
            draw: seed and visit.
        """
        hops: list[Hop] = []
        for depth, limit in enumerate(limits):
            hop, nodes = self._hop(nodes, limit, mixed_seed(*draw, STREAM, depth))
            hops.insert(0, hop)
        return ReadNodes(nodes, tuple(hops))

    def _hop(self, nodes: Numbers, limit: int | None, key: int) -> tuple[Hop, Numbers]:
        graph, begin = self.graph, self._start[nodes]
        counts = self._start[nodes + 1] - begin
        edge, query = concatenated(begin, counts), np.repeat(np.arange(len(nodes)), counts)
        scale = np.ones(len(edge), np.float32)
        if limit is not None and (counts > limit + 1).any():
            own = graph.pairs[1, edge] == nodes[query]
            sampled = self._drawn(edge, query, own, counts, limit, key)
            scale = np.where(own, 1, np.maximum((counts[query] - 1) / limit, 1)).astype(np.float32)[sampled]
            edge, query = edge[sampled], query[sampled]
        seen = graph.pairs[1, edge]
        read = np.concatenate([nodes, np.setdiff1d(seen, nodes)])
        order = np.argsort(read)
        key_position = order[np.searchsorted(read, seen, sorter=order)]
        hop = Hop(np.stack([query, key_position]), graph.degree[edge] * scale, len(nodes), len(read))
        return hop, read

    def _drawn(
        self, edge: Numbers, query: Numbers, own: npt.NDArray[np.bool_], counts: Numbers, limit: int, key: int
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the sampled edges: self-loops, and for each node ``limit`` edges with the lowest numbers."""
        random = _numbers(edge.astype(np.uint64), key)
        random[own] = 0
        order = np.lexsort((random, query))
        rank = np.empty(len(edge), np.int64)
        rank[order] = concatenated(np.zeros_like(counts), counts)
        return rank <= limit


def concatenated(begin: Numbers, counts: Numbers) -> Numbers:
    """Return the runs begin_k, begin_k + 1, … of counts_k numbers each, one after another."""
    first = np.cumsum(counts) - counts
    return np.repeat(begin - first, counts) + np.arange(int(counts.sum()))


def _numbers(words: npt.NDArray[np.uint64], key: int) -> npt.NDArray[np.uint64]:
    """Return a random number for each word.

    Uses two rounds of SplitMix64's finalizer (Steele et al. 2014), keyed in between.
    """
    for mixed in (key & 0xFFFFFFFFFFFFFFFF, 0x9E3779B97F4A7C15):
        words = words + np.uint64(mixed)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words = words ^ (words >> np.uint64(31))
    return words
