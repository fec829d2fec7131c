"""Graphs as inputs: nodes with features, labels, degrees, random-walk features and noise, and edges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.field import EncodedRow, EncodedRows, FieldBase, Hidden, VisitDraws
from regard.core.observation import SurfaceKind
from regard.core.task import Report, RunFiles
from regard.core.wording import pluralize
from regard.data.graph_lines import GraphLine, graph_of, parse_graph
from regard.data.graph_union import PackedGraphs, packed_graphs, return_probabilities
from regard.data.graphs import UNLABELED, Graph, edge_count, edge_pairs
from regard.data.rows import Column, Row
from regard.errors import DataError
from regard.fields.node_features import EncodedGraph, FeatureColumns, NodeCodec, without_features

FILE, MAX_WALKED = "nodes.json", 4096  # maximum number of nodes for random-walk features


class Graphs(FieldBase):
    """Graphs whose nodes have these columns: 1, their features, label, degree and random-walk features, and noise.

    Args:
        columns: the column of the graph.
        directed: whether only the first node of an edge attends to the second.
        degrees: the maximum degree, higher degrees are equal to it; 0 omits degrees.
        walks: adds the return probabilities of walks of 2 … ``walks`` steps; 0 omits them.
        noise: number of columns of standard normal noise, drawn at each visit.
        layer: heads and width of a layer, and whether all nodes attend to each other, for ``cost``.
    """

    reads_json, packed = True, True
    kind: ClassVar[SurfaceKind] = "graph"
    hiding: ClassVar[str] = "all features of the node are 0, and its edges stay"

    def __init__(
        self, columns: tuple[Column, ...], *, directed: bool = False, degrees: int = 0, walks: int = 0, noise: int = 0,
        layer: tuple[int, int, bool] = (1, 1, False),
    ) -> None:  # fmt: skip
        self.columns, self.directed, self.layer = columns, directed, layer
        self.degrees, self.walks, self.noise = degrees, walks, noise
        self.codec: NodeCodec | None = None  # None before ``learn`` or ``open``

    @property
    def sizes(self) -> Mapping[str, int]:
        assert self.codec is not None
        structure = (self.degrees + 1 if self.degrees else 0) + max(self.walks - 1, 0)
        return {"features": self.codec.width + structure + self.noise}

    def value(self, row: Row) -> GraphLine:
        return self.accept(row.cells[self.columns[0]], row.where)

    def accept(self, value: Any, where: str | None = None) -> GraphLine:
        if not isinstance(value, GraphLine | Mapping):
            help = 'pass an object such as {"edges": [[0, 1], [1, 2]]}'
            raise DataError("the input is not a graph", where=where, why=f"it is {value!r:.80}", help=help)
        graph = value if isinstance(value, GraphLine) else graph_of(value, where=where, key=None)
        if self.codec is not None:
            self.codec.require(graph, where)
        if self.walks and graph.nodes > MAX_WALKED:
            what, why = (
                f"the graph has {pluralize(graph.nodes, 'node')}",
                f"random-walk features allow up to {MAX_WALKED:,}",
            )
            raise DataError(what, where=graph.where or where, why=why, help="set data.walks = 0")
        return graph

    def is_value(self, value: Any) -> bool:
        return isinstance(value, GraphLine | Mapping)

    def parse(self, text: str) -> GraphLine:
        return self.accept(parse_graph(text, key=None)[0])

    def text(self, value: GraphLine) -> str:
        line: dict[str, Any] = {"edges": value.edges.tolist(), "nodes": list(value.kinds) or value.nodes}
        if value.features.shape[1]:
            line["features"] = [[float(str(number)) for number in row] for row in value.features]
        return json.dumps(line, ensure_ascii=False)

    def summary(self, value: GraphLine) -> str:
        return f"{pluralize(value.nodes, 'node')}, {pluralize(len(value.edges), 'edge')}"

    def learn(self, run: RunFiles, values: Sequence[GraphLine], log: Report) -> Graphs:
        if not values:
            why = "the files, or their share, are empty"
            raise DataError("no graphs to train on", where=run.config.data.train[0].name, why=why)
        self.codec = NodeCodec.of(values)
        save_codec_file(run.tokenizers / FILE, self.codec._asdict())
        return self

    def open(self, run: RunFiles) -> Graphs:
        self.codec = open_codec_file(run.tokenizers / FILE, NodeCodec.parse)
        return self

    def encode(self, values: Sequence[GraphLine]) -> EncodedRows:
        rows = [self._encoded(self.accept(value)) for value in values]
        return EncodedRows(rows, [False] * len(rows))

    def _encoded(self, value: GraphLine) -> EncodedGraph:
        assert self.codec is not None
        pairs, columns = edge_pairs(value.edges, value.nodes, directed=self.directed), FeatureColumns()
        self.codec.add_to(columns, value)
        if self.degrees:
            degree = (np.bincount(pairs[0], minlength=value.nodes) - 1).clip(max=self.degrees)
            columns.add_chosen(np.arange(value.nodes), degree, self.degrees + 1)
        if self.walks > 1:
            columns.add_table(return_probabilities(pairs, value.nodes, self.walks))
        unlabeled = np.full(value.nodes, UNLABELED, np.int64)
        width = self.sizes["features"]
        graph = Graph(value.where or "", value.nodes, width, pairs, *columns.sorted(), unlabeled, ())
        return EncodedGraph(value.kinds, value.digest(), graph).with_noise(self.noise, 0)

    def without(self, value: GraphLine, row: EncodedGraph, node: int) -> Hidden:
        """Return the input without the features of a node. Cost: a copy of the features of the graph."""
        return Hidden(row.without(node), without_features(value, node))

    def augment(self, rows: Sequence[EncodedRow], draws: VisitDraws) -> EncodedGraph:
        row: EncodedGraph = rows[0]
        return row.with_noise(self.noise, draws.visit) if draws.visit else row

    def pad(self, rows: Sequence[EncodedGraph]) -> PackedGraphs:
        return packed_graphs([row.graph for row in rows])

    def labels(self, row: EncodedGraph) -> tuple[str, ...]:
        return tuple(f"{node} {row.kinds[node]}" if row.kinds else str(node) for node in range(len(row)))

    def digest(self, row: EncodedGraph) -> str:
        return row.digest

    def describe(self, rows: Sequence[EncodedGraph]) -> str:
        sizes, edges = [*map(len, rows)], edge_count([row.graph for row in rows])
        return f"of {min(sizes):,} to {pluralize(max(sizes), 'node')}, {pluralize(edges, 'edge')}"

    def cost(self, value: GraphLine) -> int:
        heads, width, complete = self.layer
        pairs = value.nodes**2 if complete else value.nodes + 2 * len(value.edges)
        return max(pairs * heads, value.nodes * width)
