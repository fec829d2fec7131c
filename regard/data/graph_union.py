"""Several graphs as one of disjoint parts, and numbers of nodes that describe their surroundings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.data.graphs import UNLABELED, Graph

SMALL = 64  # nodes
TOGETHER = 1 << 20  # chances of walks that are held at once
Numbers = npt.NDArray[np.int64]


def disjoint_union(graphs: Sequence[Graph]) -> Graph:
    """One graph whose edges stay within its parts: the nodes of each graph after those of the one before it.

    Its matrix of edges has those of the graphs along its diagonal, so that nothing is padded, and what goes by edges
    computes for each part what it computes for that graph alone.
    """
    sizes = np.array([graph.nodes for graph in graphs])
    start = sizes.cumsum() - sizes
    pairs = [graph.pairs + first for graph, first in zip(graphs, start, strict=True)]
    entries = [graph.entries + np.array([[first], [0]]) for graph, first in zip(graphs, start, strict=True)]
    nodes = int(sizes.sum())
    return Graph(
        graphs[0].where, nodes, graphs[0].features, np.concatenate(pairs, 1), np.concatenate(entries, 1),
        np.concatenate([graph.values for graph in graphs]), np.full(nodes, UNLABELED, np.int64), (),
    )  # fmt: skip


class PackedGraphs(NamedTuple):
    """Graphs as one of disjoint parts, the nodes of each after those of the one before it."""

    entries: Tensor  # (2, entries): node and feature of everything that is not 0
    values: Tensor  # (entries,)
    pairs: Tensor  # (2, edges): see ``Graph``
    degree: Tensor  # (edges,)
    counts: Tensor  # (graphs,): nodes of each
    features: int  # of a node

    @property
    def answered(self) -> Tensor | None:
        """None: a graph has one answer (``core.field.InputBatch``)."""
        return None

    def by_row(self, values: Tensor) -> Sequence[Tensor]:
        """Return the values of each graph's nodes, of the values (nodes, …) of all."""
        return values.split(self.counts.tolist())


def packed_graphs(graphs: Sequence[Graph]) -> PackedGraphs:
    """Return graphs as a batch."""
    union, counts = disjoint_union(graphs), np.array([graph.nodes for graph in graphs])
    arrays = (union.entries, union.values, union.pairs, union.degree, counts)
    entries, values, pairs, degree, sizes = (torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)
    return PackedGraphs(entries, values, pairs, degree, sizes, union.features)


def return_probabilities(pairs: Numbers, nodes: int, steps: int) -> npt.NDArray[np.float32]:
    """(nodes, steps − 1): (P^k)_ii, the chance that a walk of k = 2 … ``steps`` steps from a node ends there.

    P_ij = 1/d_i over the edges (i, j) but for those to oneself (Dwivedi et al. 2022); 0 for a node without any.
    Unlike eigenvectors of the Laplacian they have no sign to choose. One step is left out, after which nobody is back.
    ``pairs``: of ``Graph``. Cost: steps · edges · nodes multiply-adds; memory for the edges and some
    ``TOGETHER`` numbers.
    """
    query, key = pairs[:, pairs[0] != pairs[1]]
    count = np.bincount(query, minlength=nodes)
    step = _rows(np.concatenate([[0], count.cumsum()]), key, 1 / count[query], nodes)
    if nodes <= SMALL:
        step = step.to_dense()  # threads of a sparse product wait for each other longer than such a product takes
    found = np.zeros((nodes, max(steps - 1, 0)))
    width = max(1, min(nodes, TOGETHER // nodes))
    for begin in range(
        0, nodes if len(key) else 0, width
    ):  # a column of P^k, where walks end, knows none of the others
        ends = np.arange(begin, min(begin + width, nodes))
        reached = torch.zeros(nodes, len(ends), dtype=torch.float64)
        reached[ends, ends - begin] = 1
        for k in range(1, steps + 1):
            reached = step @ reached
            if k > 1:
                found[ends, k - 2] = reached[ends, ends - begin].numpy()
    return found.astype(np.float32)


def _rows(start: Numbers, column: Numbers, value: npt.NDArray[np.float64], nodes: int) -> Tensor:
    """A matrix (nodes, nodes) in compressed rows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        # Copied: NumPy's view of one edge is contiguous with a stride that torch refuses.
        rows, columns, values = (torch.from_numpy(each.copy()) for each in (start, column, value))
        return torch.sparse_csr_tensor(rows, columns, values, (nodes, nodes), check_invariants=True)
