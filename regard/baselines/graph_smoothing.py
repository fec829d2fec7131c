"""Features of nodes averaged over their neighbors, as sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from regard.baselines.linear import Sparse
from regard.data.graphs import Graph

MAX_ENTRIES = 50_000_000  # nonzero features that are read


def features_of(graph: Graph) -> Sparse:
    """Return (nodes, features), weighted by log(nodes / nodes with the feature) and with rows of length 1.

    Features of a graph that is too large are left out: (nodes, 0).
    """
    from scipy.sparse import csr_matrix, diags

    if is_large(graph):
        return csr_matrix((graph.nodes, 0))
    entries, values = (graph.entries, graph.values) if graph.file is None else graph.file.entries()
    table = csr_matrix((values.astype(np.float64), (entries[0], entries[1])), shape=(graph.nodes, graph.features))
    present = np.bincount(table.indices, minlength=graph.features)
    return unit_rows(table @ diags(np.log((1 + graph.nodes) / (1 + present)) + 1e-3))


def is_large(graph: Graph) -> bool:
    """Return whether the features are left out."""
    return graph.file is not None and graph.nodes * graph.features > MAX_ENTRIES


def neighbor_mean(pairs: npt.NDArray[Any], nodes: int) -> Sparse:
    """Return the matrix (nodes, nodes) that averages over the neighbors of a node and itself."""
    from scipy.sparse import csr_matrix

    count = np.bincount(pairs[0], minlength=nodes)
    return csr_matrix((1 / count[pairs[0]], (pairs[0], pairs[1])), shape=(nodes, nodes))


def unit_rows(table: Sparse) -> Sparse:
    """Return the table with rows of length 1; rows of zeros stay."""
    from sklearn.preprocessing import normalize

    return normalize(table, copy=False)
