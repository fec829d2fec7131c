"""Features of the nodes of a graph: columns side by side, of which only what is not 0 is stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.wording import pluralize
from regard.data.graph_lines import MOST_FEATURES, GraphLine
from regard.data.graphs import Graph
from regard.errors import DataError

MAX_KINDS = 10_000  # labels of nodes


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
        """Learn from the graphs of training. Raises DataError if their nodes differ in form."""
        kinds = tuple(sorted({kind for graph in graphs for kind in graph.kinds}))
        if len(kinds) > MAX_KINDS:
            what, why = f"nodes have {pluralize(len(kinds), 'different label')}", f"up to {MAX_KINDS:,} can be learned"
            raise DataError(what, where=graphs[0].where, why=why)
        codec = cls((1.0,) * graphs[0].features.shape[1], kinds)
        for graph in graphs:
            codec.require(graph)
        squares = np.sum([np.square(graph.features, dtype=np.float64).sum(0) for graph in graphs], 0)
        root = np.sqrt(squares / sum(graph.nodes for graph in graphs))
        return cls(tuple(np.where(root > 0, root, 1.0).tolist()), kinds)

    @classmethod
    def parse(cls, saved: Any) -> NodeCodec:
        """Return the codec that was saved. Raises ValueError if it is damaged."""
        scale, kinds = tuple(map(float, saved["scale"])), tuple(saved["kinds"])
        if not all(0 < part < math.inf for part in scale) or len(scale) > MOST_FEATURES:
            raise ValueError("scales are numbers above 0")
        if len({*kinds}) != len(kinds) or len(kinds) > MAX_KINDS or not all(isinstance(kind, str) for kind in kinds):
            raise ValueError("labels of nodes are different texts")
        return cls(scale, kinds)

    def require(self, graph: GraphLine, where: str | None = None) -> None:
        """Raise DataError if the nodes of a graph have other features than those of training."""
        width, where = graph.features.shape[1], graph.where or where
        if width != len(self.scale):
            why = f"those of training have {len(self.scale)}"
            raise DataError(f"the nodes of the graph have {pluralize(width, 'feature')}", where=where, why=why)
        if bool(graph.kinds) != bool(self.kinds):
            what = "the nodes of the graph have labels" if graph.kinds else "the nodes of the graph have no labels"
            raise DataError(what, where=where, why=f"those of training have {'' if self.kinds else 'no '}labels")

    @property
    def width(self) -> int:
        """The number of columns: 1, the features, and one for each label."""
        return 1 + len(self.scale) + len(self.kinds)

    def add_to(self, columns: FeatureColumns, graph: GraphLine) -> None:
        """Add the columns of a graph. A label that training did not have is none."""
        columns.add_table(np.ones((graph.nodes, 1)))
        columns.add_table(graph.features / np.array(self.scale) if self.scale else graph.features)
        if self.kinds:
            places = {kind: place for place, kind in enumerate(self.kinds)}
            known = np.array([places.get(kind, -1) for kind in graph.kinds])
            columns.add_chosen(np.flatnonzero(known >= 0), known[known >= 0], len(self.kinds))


class FeatureColumns:
    """Columns of features, added one after the other."""

    def __init__(self) -> None:
        self._width, self._entries, self._values = 0, [np.zeros((2, 0), np.int64)], [np.zeros(0, np.float32)]

    def add_table(self, table: npt.NDArray[Any]) -> None:
        """Add a table (nodes, columns)."""
        place = np.stack(np.nonzero(table)).astype(np.int64)
        self._add(place, table[place[0], place[1]], table.shape[1])

    def add_chosen(self, node: npt.NDArray[np.int64], column: npt.NDArray[np.int64], width: int) -> None:
        """Add ``width`` columns with a 1 in one of them for each of these nodes."""
        self._add(np.stack([node, column]), np.ones(len(node)), width)

    def _add(self, place: npt.NDArray[np.int64], values: npt.NDArray[Any], width: int) -> None:
        self._entries.append(place + np.array([[0], [self._width]]))
        with np.errstate(over="ignore"):  # the output of the network is then not finite, which predictors report
            self._values.append(values.astype(np.float32))
        self._width += width

    def sorted(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return the pairs (2, entries) of node and column that are not 0, in order, and their values."""
        entries, values = np.concatenate(self._entries, 1), np.concatenate(self._values)
        order = np.argsort(entries[0] * self._width + entries[1], kind="stable")
        return entries[:, order], values[order]


@dataclass(frozen=True, eq=False)
class EncodedGraph:
    """A row of the field: the graph as the network reads it, the labels of its nodes, and the digest of the value."""

    kinds: tuple[str, ...]
    digest: str
    graph: Graph

    def __len__(self) -> int:
        return self.graph.nodes

    def with_noise(self, width: int, visit: int) -> EncodedGraph:
        """Return the graph with ``width`` last columns of normal numbers, a function of its contents and the visit."""
        if not width:
            return self
        graph, first, columns = self.graph, self.graph.features - width, FeatureColumns()
        random = np.random.default_rng([int(self.digest[:15], 16), visit])
        columns.add_table(random.standard_normal((graph.nodes, width)))
        (entries, values), own = columns.sorted(), graph.entries[1] < first  # without the noise of another visit
        entries = np.concatenate([graph.entries[:, own], entries + np.array([[0], [first]])], 1)
        order = np.argsort(entries[0], kind="stable")
        values = np.concatenate([graph.values[own], values])[order]
        return replace(self, graph=replace(graph, entries=entries[:, order], values=values))
