"""Neighborhoods of some nodes of a graph, whole or drawn: what each layer of a network has to look along."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.randomness import mixed_seed
from regard.data.graphs import Graph

STREAM = 9  # of draws
Numbers = npt.NDArray[np.int64]
Values = npt.NDArray[np.float32]


class Hop(NamedTuple):
    """Edges of one layer: ``pairs`` (2, edges) from the first ``queries`` of its ``keys`` nodes to all of them.

    ``degree`` (edges,): 1 / √(d_i d_j) of the whole graph, times (d_i − 1) / s where s of the d_i − 1 neighbors were
    drawn: so the sum over them is in the mean that over all (Chen et al. 2018, §3). Degrees count the node itself.
    """

    pairs: Numbers
    degree: Values
    queries: int
    keys: int


class ReadNodes(NamedTuple):
    """The ``nodes`` that are read, those asked for first, and a hop for each layer, in the order of layers."""

    nodes: Numbers
    hops: tuple[Hop, ...]


class Neighborhoods:
    """Neighborhoods of the nodes of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @cached_property
    def _start(self) -> Numbers:
        """The place of each node's first edge, and the end of all."""
        return np.searchsorted(self.graph.pairs[0], np.arange(self.graph.nodes + 1))

    def of(self, nodes: Numbers, most: Sequence[int | None], draw: tuple[int, int] = (0, 0)) -> ReadNodes:
        """Nodes and edges that ``nodes``, all different, look at over len(``most``) layers.

        ``most``: neighbors of a node beside itself, at first those of ``nodes``; None for all. Of a node that has
        more, so many different ones are drawn evenly, a function of ``draw`` (seed and visit), the layer and the node:
        whatever else is asked for (Hamilton et al. 2017, Algorithm 2, who draw with replacement where there are too
        few). Cost: a random number for each edge of a node that has more than ``most``.
        """
        hops: list[Hop] = []
        for depth, number in enumerate(most):
            hop, nodes = self._hop(nodes, number, mixed_seed(*draw, STREAM, depth))
            hops.insert(0, hop)
        return ReadNodes(nodes, tuple(hops))

    def _hop(self, nodes: Numbers, most: int | None, key: int) -> tuple[Hop, Numbers]:
        graph, begin = self.graph, self._start[nodes]
        counts = self._start[nodes + 1] - begin
        place, query = concatenated(begin, counts), np.repeat(np.arange(len(nodes)), counts)
        scale = np.ones(len(place), np.float32)
        if most is not None and (counts > most + 1).any():
            own = graph.pairs[1, place] == nodes[query]
            kept = self._drawn(place, query, own, counts, most, key)
            scale = np.where(own, 1, np.maximum((counts[query] - 1) / most, 1)).astype(np.float32)[kept]
            place, query = place[kept], query[kept]
        seen = graph.pairs[1, place]
        every = np.concatenate([nodes, np.setdiff1d(seen, nodes)])
        order = np.argsort(every)
        key_place = order[np.searchsorted(every, seen, sorter=order)]
        hop = Hop(np.stack([query, key_place]), graph.degree[place] * scale, len(nodes), len(every))
        return hop, every

    def _drawn(
        self, place: Numbers, query: Numbers, own: npt.NDArray[np.bool_], counts: Numbers, most: int, key: int
    ) -> npt.NDArray[np.bool_]:
        """Mask of the edges that are kept: of each node that to itself, and the ``most`` with the smallest numbers."""
        random = _numbers(place.astype(np.uint64), key)
        random[own] = 0
        order = np.lexsort((random, query))
        rank = np.empty(len(place), np.int64)
        rank[order] = concatenated(np.zeros_like(counts), counts)
        return rank <= most


def concatenated(begin: Numbers, counts: Numbers) -> Numbers:
    """The runs begin_k, begin_k + 1, … of so many numbers each, end to end."""
    first = np.cumsum(counts) - counts
    return np.repeat(begin - first, counts) + np.arange(int(counts.sum()))


def _numbers(words: npt.NDArray[np.uint64], key: int) -> npt.NDArray[np.uint64]:
    """A random number of each word: two rounds of SplitMix64's finalizer (Steele et al. 2014), keyed in between."""
    for mixed in (key & 0xFFFFFFFFFFFFFFFF, 0x9E3779B97F4A7C15):
        words = words + np.uint64(mixed)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words = words ^ (words >> np.uint64(31))
    return words
