"""Graphs: nodes with features and labels, and the edges between them, checked when they are made."""

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
    """One graph. ``pairs`` (2, edges): who sees whom, each node itself, too, sorted by the first, then the second.

    ``entries`` (2, entries) and ``values`` (entries,): node and feature of all that is not 0, sorted likewise.
    ``labels`` (nodes,): a number of ``classes``, or UNLABELED. ``parts``: masks of nodes by the names of PARTS.
    ``names``: of the nodes; none are their numbers. ``file``: features that lie in a file; then there are no entries.
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
        """The name of a node."""
        return self.names[node] if self.names else str(node)

    @cached_property
    def places(self) -> dict[str, int]:
        """The number of each node by its name."""
        return {self.name(node): node for node in range(self.nodes)}

    @cached_property
    def degree(self) -> Values:
        """(edges,): 1 / √(d_i d_j) of each edge, d the number of nodes that a node sees, itself among them."""
        root = np.bincount(self.pairs[0], minlength=self.nodes).clip(1) ** -0.5
        return (root[self.pairs[0]] * root[self.pairs[1]]).astype(np.float32)

    @property
    def mutual(self) -> bool:
        """Return whether of every two nodes either both see the other or none does."""
        first, second = self.pairs
        return np.array_equal(np.sort(second * self.nodes + first), first * self.nodes + second)

    @property
    def isolated(self) -> Numbers:
        """Nodes that see nobody but themselves, and are seen by nobody."""
        apart = self.pairs[0] != self.pairs[1]
        seen = np.zeros(self.nodes, np.bool_)
        seen[self.pairs[:, apart].ravel()] = True
        return np.flatnonzero(~seen)

    def neighbors(self, node: int) -> Numbers:
        """The nodes that a node sees, itself among them."""
        begin, end = np.searchsorted(self.pairs[0], [node, node + 1])
        return self.pairs[1, begin:end]

    def digest(self) -> str:
        """A sha256 of all that training sees."""
        whole = hashlib.sha256(f"{self.nodes} {self.features} {self.classes}".encode())
        for array in (self.pairs, self.entries, self.values, self.labels, *self.parts.values()):
            whole.update(np.ascontiguousarray(array).tobytes())
        for block in () if self.file is None else self.file.blocks():
            whole.update(block.tobytes())
        return whole.hexdigest()

    def told(self) -> str:
        """Sizes in a line."""
        edges = edge_count([self])
        alone = f", {len(self.isolated):,} of them without an edge" if len(self.isolated) else ""
        sizes = [
            f"{pluralize(self.nodes, 'node')}{alone}",
            pluralize(edges, "edge"),
            pluralize(self.features, "feature"),
        ]
        return ", ".join([*sizes, pluralize(len(self.classes), "class", "classes")])


def edge_count(graphs: Sequence[Graph]) -> int:
    """The edges of graphs, a node's own left out: each counts once where all go both ways, else in its direction."""
    directed = sum(graph.pairs.shape[1] - graph.nodes for graph in graphs)
    return directed // 2 if all(graph.mutual for graph in graphs) else directed


def edge_pairs(edges: Numbers, nodes: int, *, directed: bool = False) -> Numbers:
    """``Graph.pairs`` of edges (number, 2), in both directions unless ``directed``: the second end is then seen.

    Each pair stands once, and each node sees itself.
    """
    own = np.arange(nodes, dtype=np.int64)
    first, second = (edges[:, 0], edges[:, 1]) if len(edges) else (own[:0], own[:0])
    codes = [own * nodes + own, first.astype(np.int64) * nodes + second]
    if not directed:
        codes.append(second.astype(np.int64) * nodes + first)
    code = np.unique(np.concatenate(codes))
    return np.stack([code // max(nodes, 1), code % max(nodes, 1)])


def normalized_rows(entries: Numbers, values: Values, nodes: int) -> Values:
    """The values divided by the sum of their magnitudes over each node: rows of features of size 1."""
    total = np.bincount(entries[0], np.abs(values).astype(np.float64), nodes)
    return (values / np.where(total == 0, 1, total)[entries[0]]).astype(np.float32)
