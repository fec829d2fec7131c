"""Graphs: nodes with features and labels, and the edges between them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from regard.core.wording import pluralize
from regard.data.feature_file import FeatureFile

PARTS = ("train", "valid", "test")
UNLABELED = -1
Numbers = npt.NDArray[np.int64]
Values = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Graph:
    """One graph.

    Attributes:
        where: the file.
        nodes: number of nodes.
        features: number of features of a node.
        pairs: (2, edges): i and j where node i attends to node j, self-loops included; sorted by i, then j.
        entries: (2, entries): node and feature of each nonzero value, sorted likewise.
        values: (entries,): the nonzero values.
        labels: (nodes,): a number of ``classes``, or UNLABELED.
        classes: names of the classes.
        parts: masks of nodes by the names of PARTS.
        names: names of the nodes; () if the nodes are named by their numbers.
        file: a file that holds the features; there are no ``entries`` then.
    """

    where: str
    nodes: int
    features: int
    pairs: Numbers
    entries: Numbers
    values: Values
    labels: Numbers
    classes: tuple[str, ...]
    parts: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    file: FeatureFile | None = None

    def name(self, node: int) -> str:
        """Return the name of a node."""
        return self.names[node] if self.names else str(node)

    @cached_property
    def node_numbers(self) -> dict[str, int]:
        """Number of each node by its name."""
        return {self.name(node): node for node in range(self.nodes)}

    @cached_property
    def degree(self) -> Values:
        """Edge weights 1 / √(d_i d_j), shape (edges,); d counts the neighbors of a node, including itself."""
        root = np.bincount(self.pairs[0], minlength=self.nodes).clip(1) ** -0.5
        return (root[self.pairs[0]] * root[self.pairs[1]]).astype(np.float32)

    @property
    def mutual(self) -> bool:
        """True if every edge exists in both directions."""
        first, second = self.pairs
        return np.array_equal(np.sort(second * self.nodes + first), first * self.nodes + second)

    @property
    def isolated(self) -> Numbers:
        """Nodes without an edge other than their self-loop."""
        is_edge = self.pairs[0] != self.pairs[1]
        seen = np.zeros(self.nodes, np.bool_)
        seen[self.pairs[:, is_edge].ravel()] = True
        return np.flatnonzero(~seen)

    def neighbors(self, node: int) -> Numbers:
        """Return the nodes that a node attends to, including itself."""
        begin, end = np.searchsorted(self.pairs[0], [node, node + 1])
        return self.pairs[1, begin:end]

    def digest(self) -> str:
        """Return a sha256 of everything that training reads."""
        whole = hashlib.sha256(f"{self.nodes} {self.features} {self.classes}".encode())
        for array in (self.pairs, self.entries, self.values, self.labels, *self.parts.values()):
            whole.update(np.ascontiguousarray(array).tobytes())
        for block in () if self.file is None else self.file.blocks():
            whole.update(block.tobytes())
        return whole.hexdigest()

    def describe(self) -> str:
        """Return the sizes in one line."""
        edges = edge_count([self])
        isolated = f", {len(self.isolated):,} of them without an edge" if len(self.isolated) else ""
        sizes = [
            f"{pluralize(self.nodes, 'node')}{isolated}",
            pluralize(edges, "edge"),
            pluralize(self.features, "feature"),
        ]
        return ", ".join([*sizes, pluralize(len(self.classes), "class", "classes")])


def edge_count(graphs: Sequence[Graph]) -> int:
    """Return the number of edges of graphs without self-loops.

    An edge in both directions counts once if all edges of all graphs have both directions; otherwise each direction
    counts.
    """
    directed = sum(graph.pairs.shape[1] - graph.nodes for graph in graphs)
    return directed // 2 if all(graph.mutual for graph in graphs) else directed


def edge_pairs(edges: Numbers, nodes: int, *, directed: bool = False) -> Numbers:
    """Return ``Graph.pairs`` for edges of shape (number, 2).

    Edges get both directions; if ``directed``, only the first node attends to the second. Duplicates are removed, and
    each node gets a self-loop.
    """
    own = np.arange(nodes, dtype=np.int64)
    first, second = (edges[:, 0], edges[:, 1]) if len(edges) else (own[:0], own[:0])
    codes = [own * nodes + own, first.astype(np.int64) * nodes + second]
    if not directed:
        codes.append(second.astype(np.int64) * nodes + first)
    code = np.unique(np.concatenate(codes))
    return np.stack([code // max(nodes, 1), code % max(nodes, 1)])


def normalized_rows(entries: Numbers, values: Values, nodes: int) -> Values:
    """Return the values divided by the sum of their magnitudes over each node."""
    total = np.bincount(entries[0], np.abs(values).astype(np.float64), nodes)
    return (values / np.where(total == 0, 1, total)[entries[0]]).astype(np.float32)
