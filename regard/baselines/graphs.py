"""Baseline of whole graphs: logistic or ridge regression on statistics of random walks, degrees and features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar
from zlib import crc32

import numpy as np

from regard.baselines.dense_baseline import DenseBaseline
from regard.core.baseline import Floats
from regard.data.graph_lines import GraphLine
from regard.data.graph_union import return_probabilities
from regard.data.graphs import edge_pairs

STEPS = 16  # of the longest walk
WALKED = 512  # nodes of the largest graph that is walked; a walk costs nodes × edges
DEGREES = 16  # larger degrees are counted together
KINDS = 64  # buckets of the labels of nodes


class GraphBaseline(DenseBaseline):
    """Numbers of nodes and edges; sum, mean and deviation over nodes of the return probabilities of random walks.

    And the counts of degrees, the mean and the deviation of each feature, and the shares of labels of nodes, hashed.
    """

    kind: ClassVar[str] = "graphs"
    features_of: ClassVar[str] = "random walks, degrees and features"

    def table(self, columns: Sequence[Sequence[GraphLine]]) -> Floats:
        return np.stack([_statistics(graph) for graph in columns[0]])


def _statistics(graph: GraphLine) -> Floats:
    """Return the features of a graph: (2 + 3 · (``STEPS`` − 1) + ``DEGREES`` + 1 + 2 · features + ``KINDS``,)."""
    pairs = edge_pairs(graph.edges, graph.nodes, directed=False)
    returns = np.zeros((graph.nodes, STEPS - 1))
    if graph.nodes <= WALKED:
        returns = return_probabilities(pairs, graph.nodes, STEPS).astype(np.float64)
    degree = (np.bincount(pairs[0], minlength=graph.nodes) - 1).clip(max=DEGREES)
    kinds = np.bincount([crc32(kind.encode()) % KINDS for kind in graph.kinds], minlength=KINDS)
    features = graph.features.astype(np.float64)
    nodes = max(graph.nodes, 1)
    sums = returns.sum(0), returns.sum(0) / nodes, _deviation(returns)
    shares = np.bincount(degree, minlength=DEGREES + 1), features.sum(0) / nodes, _deviation(features), kinds / nodes
    return np.concatenate([[graph.nodes, len(graph.edges)], *sums, *shares])


def _deviation(table: Floats) -> Floats:
    return table.std(0) if len(table) else np.zeros(table.shape[1])
