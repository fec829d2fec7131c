"""Several graphs as one of disjoint parts, and numbers of nodes that tell what surrounds them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from regard.data.graphs import UNLABELLED, Graph

__all__ = ["disjoint_union", "return_probabilities"]


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
        np.concatenate([graph.values for graph in graphs]), np.full(nodes, UNLABELLED, np.int64), (),
    )  # fmt: skip


def return_probabilities(pairs: npt.NDArray[np.int64], nodes: int, steps: int) -> npt.NDArray[np.float32]:
    """(nodes, steps − 1): (P^k)_ii, the chance that a walk of k = 2 … ``steps`` steps from a node ends there.

    P_ij = 1/d_i over the edges (i, j) but for those to oneself (Dwivedi et al. 2022); 0 for a node without any.
    Unlike eigenvectors of the Laplacian they have no sign to choose. One step is left out, after which nobody is back.
    ``pairs``: of ``Graph``. Cost: steps · edges · nodes multiply-adds, and nodes² numbers of memory.
    """
    query, key = pairs[:, pairs[0] != pairs[1]]
    count = np.bincount(query, minlength=nodes)
    walkers = np.flatnonzero(count)  # reduceat takes no empty segments
    offsets = (count.cumsum() - count)[walkers]
    reached = np.eye(nodes)
    found = np.zeros((nodes, max(steps - 1, 0)))
    for step in range(1, steps + 1):
        moved = np.zeros_like(reached)
        if len(walkers):
            moved[walkers] = np.add.reduceat(reached[key], offsets, axis=0) / count[walkers, None]
        reached = moved
        if step > 1:
            found[:, step - 2] = reached.diagonal()
    return found.astype(np.float32)
