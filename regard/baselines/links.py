"""Baseline of links: logistic regression on the similarity of two nodes and on their common neighbors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from regard.baselines.graph_smoothing import features_of, neighbor_mean, unit_rows
from regard.baselines.linear import Linear, Sparse, Targets, assign_folds, fit_linear
from regard.core.baseline import Floats, SavedBaseline
from regard.data.graphs import Graph

STEPS = 2  # of averaging over neighbors
SIMILARITIES = STEPS + 5  # features of a pair
FOLDS = 5
STRENGTH = 1.0
AT_ONCE = 1 << 16  # pairs that are computed together
Pairs = npt.NDArray[np.int64]  # (pairs, 2)


class LinkBaseline:
    """Cosines of TF-IDF features, averaged over zero to two steps; common neighbors, by number and by rarity; degrees.

    Rarity is Σ 1 / log d over the common neighbors (Adamic and Adar 2003). A training edge is measured in a graph
    without the edges of its fold; otherwise its own ends would be each other's neighbors.
    """

    kind: ClassVar[str] = "links"
    description: ClassVar[str] = "similarity of smoothed features and common neighbors with logistic regression"

    def __init__(self) -> None:
        self.linear, self.scale = Linear(np.zeros((0, 0)), np.zeros(0)), np.zeros((2, 0))

    def learn(self, graph: Graph, edges: Pairs, unlinked: Pairs) -> None:
        """Fit on edges of the graph and on other pairs of nodes, which have no edge."""
        fold = _folds(edges)
        own, rest = np.zeros((len(edges), SIMILARITIES)), np.zeros((len(unlinked), SIMILARITIES))
        part = np.arange(len(unlinked)) % FOLDS
        for number in range(FOLDS):
            reduced = Surroundings(_without(graph, edges[fold == number]))
            own[fold == number], rest[part == number] = (
                reduced.of(pairs) for pairs in (edges[fold == number], unlinked[part == number])
            )
        table, exists = np.concatenate([own, rest]), np.arange(len(own) + len(rest)) < len(own)
        self.scale = np.stack([table.mean(0), table.std(0) + 1e-9])
        self.linear = fit_linear(self._scaled(table), Targets.of(exists.astype(int), 2, np.ones(len(table))), STRENGTH)

    def held_out_outputs(self, graph: Graph, edges: Pairs) -> Floats:
        """Return (edges,) the logits of edges of the graph, each in a graph without the edges of its fold."""
        fold, logits = _folds(edges), np.zeros(len(edges))
        for number in range(FOLDS):
            chosen = edges[fold == number]
            logits[fold == number] = self._logits(Surroundings(_without(graph, chosen)).of(chosen))
        return logits

    def outputs(self, graph: Graph, pairs: Pairs) -> Floats:
        """Return (pairs,) the logits of an edge."""
        return self._logits(surroundings(graph).of(pairs))

    def against_all(self, graph: Graph, nodes: npt.NDArray[np.int64]) -> Floats:
        """Return (nodes, all nodes) the logits of an edge from each of some nodes to every node."""
        return self._logits(surroundings(graph).against_all(nodes)).reshape(len(nodes), -1)

    def _logits(self, similarities: Floats) -> Floats:
        table = self.linear.outputs(self._scaled(similarities))
        return np.asarray(table[:, 1] - table[:, 0])

    def _scaled(self, table: Floats) -> Sparse:
        from scipy.sparse import csr_matrix

        return csr_matrix((table - self.scale[0]) / self.scale[1])

    def save(self) -> SavedBaseline:
        arrays: dict[str, npt.NDArray[Any]] = {
            "weights": self.linear.weights, "bias": self.linear.bias, "scale": self.scale,
        }  # fmt: skip
        return SavedBaseline(arrays, {})

    def open(self, saved: SavedBaseline) -> Self:
        weights, bias, self.scale = (saved.arrays[name].astype(np.float64) for name in ("weights", "bias", "scale"))
        if weights.shape != (2, SIMILARITIES) or bias.shape != (2,) or self.scale.shape != (2, SIMILARITIES):
            raise ValueError("the weights of the baseline have the wrong shape")
        if not all(np.isfinite(array).all() for array in (weights, bias, self.scale)) or not (self.scale[1] > 0).all():
            raise ValueError("a weight is not finite, or a deviation is not positive")
        self.linear = Linear(weights, bias)
        return self


@lru_cache(maxsize=2)  # by identity: batches and predictions are of the same graph
def surroundings(graph: Graph) -> Surroundings:
    """Return the tables of a graph."""
    return Surroundings(graph)


def _folds(edges: Pairs) -> npt.NDArray[np.int64]:
    return assign_folds([*range(len(edges))], np.zeros(len(edges)), FOLDS)


def _without(graph: Graph, edges: Pairs) -> Graph:
    """Return the graph without these edges, in both directions."""
    code = graph.pairs[0] * graph.nodes + graph.pairs[1]
    left_out = np.concatenate([edges[:, 0] * graph.nodes + edges[:, 1], edges[:, 1] * graph.nodes + edges[:, 0]])
    return replace(graph, pairs=graph.pairs[:, ~np.isin(code, left_out)])


class Surroundings:
    """Tables of a graph by which nodes are compared."""

    def __init__(self, graph: Graph) -> None:
        from scipy.sparse import csr_matrix, diags

        table, mean = features_of(graph), neighbor_mean(graph.pairs, graph.nodes)
        tables = [table]
        for _ in range(STEPS):
            tables.append(unit_rows(mean @ tables[-1]))
        first, second = graph.pairs[:, graph.pairs[0] != graph.pairs[1]]
        edges = csr_matrix((np.ones(len(first)), (first, second)), shape=(graph.nodes, graph.nodes))
        edges = edges.maximum(edges.T).tocsr()
        degree = np.asarray(edges.sum(1)).ravel()
        rare = (edges @ diags(1 / np.log(np.maximum(degree, 2)))).tocsr()
        # The first and second factor of each product: a cosine, or a sum over common neighbors.
        self.factors = [*((table, table) for table in tables), (edges, edges), (rare, edges)]
        self.degree = np.log1p(degree)

    def of(self, pairs: Pairs) -> Floats:
        """Return (pairs, SIMILARITIES)."""
        products = [_products(one, other, pairs) for one, other in self.factors]
        return self._joined(products, self.degree[pairs[:, 0]], self.degree[pairs[:, 1]])

    def against_all(self, nodes: npt.NDArray[np.int64]) -> Floats:
        """Return (nodes · all nodes, SIMILARITIES) of each of these nodes and every node."""
        products = [(one[nodes] @ other.T).toarray().ravel() for one, other in self.factors]
        number = len(self.degree)
        return self._joined(products, np.repeat(self.degree[nodes], number), np.tile(self.degree, len(nodes)))

    @staticmethod
    def _joined(products: Sequence[Floats], first: Floats, second: Floats) -> Floats:
        """Return the features; both orders of a pair have the same ones."""
        counts = [np.log1p(sums) for sums in products[STEPS + 1 :]]
        return np.column_stack([*products[: STEPS + 1], *counts, np.minimum(first, second), np.maximum(first, second)])


def _products(one: Sparse, other: Sparse, pairs: Pairs) -> Floats:
    """Return the product of a row of each table for each pair."""
    starts = range(0, len(pairs), AT_ONCE)
    parts = (pairs[start : start + AT_ONCE] for start in starts)
    sums = [np.asarray(one[part[:, 0]].multiply(other[part[:, 1]]).sum(1)).ravel() for part in parts]
    return np.concatenate([np.zeros(0), *sums])
