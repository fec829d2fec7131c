"""Node features of a graph: concatenated columns, stored sparsely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.wording import pluralize
from regard.data.graph_lines import MAX_FEATURES, GraphLine
from regard.data.graphs import Graph
from regard.errors import DataError

MAX_KINDS = 10_000  # maximum number of node labels


class NodeCodec(NamedTuple):
    """Scale and labels of nodes, learned from training.

    Attributes:
        scale: the root mean square of each feature in training, by which it is divided.
        kinds: the labels of nodes.
    """

    scale: tuple[float, ...]
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, graphs: Sequence[GraphLine]) -> NodeCodec:
        """Learn from the training graphs. Raises DataError if their nodes differ in form."""
        kinds = tuple(sorted({kind for graph in graphs for kind in graph.kinds}))
        if len(kinds) > MAX_KINDS:
            what, why = f"nodes have {pluralize(len(kinds), 'different label')}", f"the limit is {MAX_KINDS:,}"
            raise DataError(what, where=graphs[0].where, why=why)
        codec = cls((1.0,) * graphs[0].features.shape[1], kinds)
        for graph in graphs:
            codec.require(graph)
        squares = np.sum([np.square(graph.features, dtype=np.float64).sum(0) for graph in graphs], 0)
        root = np.sqrt(squares / sum(graph.nodes for graph in graphs))
        return cls(tuple(np.where(root > 0, root, 1.0).tolist()), kinds)

    @classmethod
    def parse(cls, saved: Any) -> NodeCodec:
        """Return the saved codec. Raises ValueError if it is damaged."""
        scale, kinds = tuple(map(float, saved["scale"])), tuple(saved["kinds"])
        if not all(0 < part < math.inf for part in scale) or len(scale) > MAX_FEATURES:
            raise ValueError("scales must be numbers above 0")
        if len({*kinds}) != len(kinds) or len(kinds) > MAX_KINDS or not all(isinstance(kind, str) for kind in kinds):
            raise ValueError("node labels must be distinct texts")
        return cls(scale, kinds)

    def require(self, graph: GraphLine, where: str | None = None) -> None:
        """Raise DataError if the features or labels of a graph's nodes differ in form from those of training."""
        width, where = graph.features.shape[1], graph.where or where
        if width != len(self.scale):
            why = f"the training data has {len(self.scale)}"
            raise DataError(f"the nodes of the graph have {pluralize(width, 'feature')}", where=where, why=why)
        if bool(graph.kinds) != bool(self.kinds):
            what = "the nodes of the graph have labels" if graph.kinds else "the nodes of the graph have no labels"
            raise DataError(
                what, where=where, why=f"the nodes of the training data have {'' if self.kinds else 'no '}labels"
            )

    @property
    def width(self) -> int:
        """Number of columns: 1, the features, and one for each label."""
        return 1 + len(self.scale) + len(self.kinds)

    def add_to(self, columns: FeatureColumns, graph: GraphLine) -> None:
        """Add the columns of a graph. Labels that are not in the training data are omitted."""
        columns.add_table(np.ones((graph.nodes, 1)))
        columns.add_table(graph.features / np.array(self.scale) if self.scale else graph.features)
        if self.kinds:
            numbers = {kind: number for number, kind in enumerate(self.kinds)}
            known = np.array([numbers.get(kind, -1) for kind in graph.kinds])
            columns.add_chosen(np.flatnonzero(known >= 0), known[known >= 0], len(self.kinds))


class FeatureColumns:
    """Builder of a sparse matrix of features, column by column."""

    def __init__(self) -> None:
        self._width, self._entries, self._values = 0, [np.zeros((2, 0), np.int64)], [np.zeros(0, np.float32)]

    def add_table(self, table: npt.NDArray[Any]) -> None:
        """Add a table (nodes, columns)."""
        indices = np.stack(np.nonzero(table)).astype(np.int64)
        self._add(indices, table[indices[0], indices[1]], table.shape[1])

    def add_chosen(self, node: npt.NDArray[np.int64], column: npt.NDArray[np.int64], width: int) -> None:
        """Add ``width`` columns of which each of these nodes has a 1 in one."""
        self._add(np.stack([node, column]), np.ones(len(node)), width)

    def _add(self, indices: npt.NDArray[np.int64], values: npt.NDArray[Any], width: int) -> None:
        self._entries.append(indices + np.array([[0], [self._width]]))
        with np.errstate(over="ignore"):  # the output is then not finite, which predictors report
            self._values.append(values.astype(np.float32))
        self._width += width

    def sorted(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return the indices (2, entries) of node and column of the nonzero values, sorted, and the values."""
        entries, values = np.concatenate(self._entries, 1), np.concatenate(self._values)
        order = np.argsort(entries[0] * self._width + entries[1], kind="stable")
        return entries[:, order], values[order]


@dataclass(frozen=True, eq=False)
class EncodedGraph:
    """A row of the field: the graph that the network reads, the labels of its nodes, and the digest of the value."""

    kinds: tuple[str, ...]
    digest: str
    graph: Graph

    def __len__(self) -> int:
        return self.graph.nodes

    def without(self, node: int) -> EncodedGraph:
        """Return the graph in which all columns of a node are 0."""
        visible = self.graph.entries[0] != node
        return replace(
            self, graph=replace(self.graph, entries=self.graph.entries[:, visible], values=self.graph.values[visible])
        )

    def with_noise(self, width: int, visit: int) -> EncodedGraph:
        """Return the graph with noise in its last ``width`` columns, a function of its contents and the visit."""
        if not width:
            return self
        graph, first, columns = self.graph, self.graph.features - width, FeatureColumns()
        random = np.random.default_rng([int(self.digest[:15], 16), visit])
        columns.add_table(random.standard_normal((graph.nodes, width)))
        (entries, values), own = columns.sorted(), graph.entries[1] < first  # drop the noise of an earlier visit
        entries = np.concatenate([graph.entries[:, own], entries + np.array([[0], [first]])], 1)
        order = np.argsort(entries[0], kind="stable")
        values = np.concatenate([graph.values[own], values])[order]
        return replace(self, graph=replace(graph, entries=entries[:, order], values=values))


def without_features(graph: GraphLine, node: int) -> GraphLine:
    """Return the graph with a node whose features are 0 and whose label is unknown."""
    features = graph.features.copy()
    features[node] = 0
    kinds = (*graph.kinds[:node], "", *graph.kinds[node + 1 :]) if graph.kinds else ()
    return replace(graph, features=features, kinds=kinds)
