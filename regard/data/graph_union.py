"""Disjoint unions of graphs, and random-walk features that describe the surroundings of a node."""

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
TOGETHER = 1 << 20  # probabilities held in memory at once
Numbers = npt.NDArray[np.int64]


def disjoint_union(graphs: Sequence[Graph]) -> Graph:
    """Return one graph with the nodes of all graphs, one graph after another; edges stay within each graph.

    Its edge matrix is block-diagonal, so nothing is padded. A network that follows edges computes the same for each
    graph as for that graph alone.
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
    """A batch of graphs as one disjoint union, in the order of the graphs."""

    entries: Tensor  # (2, entries): node and feature of each nonzero value
    values: Tensor  # (entries,)
    pairs: Tensor  # (2, edges): see ``Graph``
    degree: Tensor  # (edges,)
    counts: Tensor  # (graphs,): nodes of each graph
    features: int  # per node

    @property
    def answered(self) -> Tensor | None:
        """None: a graph has one answer (``core.field.InputBatch``)."""
        return None

    def by_row(self, values: Tensor) -> Sequence[Tensor]:
        """Split the values (nodes, …) of all nodes by graph."""
        return values.split(self.counts.tolist())


def packed_graphs(graphs: Sequence[Graph]) -> PackedGraphs:
    """Return graphs as a batch."""
    union, counts = disjoint_union(graphs), np.array([graph.nodes for graph in graphs])
    arrays = (union.entries, union.values, union.pairs, union.degree, counts)
    entries, values, pairs, degree, sizes = (torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)
    return PackedGraphs(entries, values, pairs, degree, sizes, union.features)


def return_probabilities(pairs: Numbers, nodes: int, steps: int) -> npt.NDArray[np.float32]:
    """Return the probabilities (P^k)_ii that a walk of k = 2 … ``steps`` steps returns to its node: (nodes, steps − 1).

    P_ij = 1/d_i over the edges (i, j) without self-loops (Dwivedi et al. 2022); 0 for a node without edges. Unlike
    eigenvectors of the Laplacian, these features have no arbitrary sign. k = 1 is omitted, since its probability is 0.
    ``pairs``: those of ``Graph``. Cost: steps · edges · nodes multiply-adds; memory for the edges and about
    ``TOGETHER`` numbers.
    """
    query, key = pairs[:, pairs[0] != pairs[1]]
    count = np.bincount(query, minlength=nodes)
    step = _rows(np.concatenate([[0], count.cumsum()]), key, 1 / count[query], nodes)
    if nodes <= SMALL:
        step = step.to_dense()  # for small graphs, synchronizing threads takes longer than the product
    probabilities = np.zeros((nodes, max(steps - 1, 0)))
    width = max(1, min(nodes, TOGETHER // nodes))
    # The columns of P^k (ends of walks) are independent of each other, so blocks of them bound the memory.
    for begin in range(0, nodes if len(key) else 0, width):
        ends = np.arange(begin, min(begin + width, nodes))
        reached = torch.zeros(nodes, len(ends), dtype=torch.float64)
        reached[ends, ends - begin] = 1
        for k in range(1, steps + 1):
            reached = step @ reached
            if k > 1:
                probabilities[ends, k - 2] = reached[ends, ends - begin].numpy()
    return probabilities.astype(np.float32)


def _rows(start: Numbers, column: Numbers, value: npt.NDArray[np.float64], nodes: int) -> Tensor:
    """Return a sparse matrix (nodes, nodes) in compressed rows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        # Copied: NumPy's view of a single edge is contiguous, but has a stride that torch rejects.
        rows, columns, values = (torch.from_numpy(array.copy()) for array in (start, column, value))
        return torch.sparse_csr_tensor(rows, columns, values, (nodes, nodes), check_invariants=True)
