"""Graphs from JSON lines, one per line: edges, features or labels of the nodes, and the label of the graph."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.core.untrusted_files import shortened
from regard.core.wording import pluralize, pluralize_with_verb
from regard.data.file_names import JSON_LINES, has_ending, named_files
from regard.data.rows import Row, describe_keys, parse_object
from regard.data.shared_files import FilesConfig, falls_into
from regard.data.text_files import read_lines, refuse_pipe
from regard.errors import ConfigError, DataError

GRAPH, LABEL = "graph", "label"  # columns of rows

MAX_NODES = 1 << 18  # of one graph: a line may state any number
MAX_FEATURES = 1 << 14
OTHER_NAMES = {"edges": "edge_index", "features": "node_feat", "nodes": "num_nodes", "label": "y"}


@dataclass(frozen=True, eq=False)
class GraphLine:
    """A graph as one line. Two are equal if all but their places and labels are equal.

    Attributes:
        where: file and line; None for an input.
        nodes: the number of nodes.
        edges: (edges, 2) numbers of nodes.
        features: (nodes, width).
        kinds: a label for each node; () for nodes without labels.
        label: label of the graph; None if it has no label.
    """

    where: str | None
    nodes: int
    edges: npt.NDArray[np.int64]
    features: npt.NDArray[np.float32]
    kinds: tuple[str, ...]
    label: str | None

    def digest(self) -> str:
        """Return a hash of everything except the label and the place."""
        whole = hashlib.blake2b(f"{self.nodes} {self.features.shape[1]} {self.kinds}".encode(), digest_size=16)
        for array in (self.edges, self.features):
            whole.update(array.tobytes())
        return whole.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphLine) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())


def read_graph_lines(corpora: Sequence[FilesConfig], key: str) -> Iterator[GraphLine]:
    """Yield the graphs of ``read_graph_rows``."""
    for row in read_graph_rows(corpora, key):
        graph: Any = row.cells[GRAPH]
        yield graph


def read_graph_rows(corpora: Sequence[FilesConfig], key: str) -> Iterator[Row]:
    """Yield the graphs of files as column GRAPH, and their labels, which have the key ``key``, as column LABEL.

    Raises:
        DataError: with file and line, for a line that is not a graph or has no label.
    """
    for corpus in corpora:
        for path in named_files(corpus.source):
            refuse_pipe(path)
            for number, line in enumerate(read_lines(path), start=1):
                if not line.strip():
                    continue
                where = f"{path}:{number}"
                graph, row = parse_graph(line, where=where, key=key)
                if graph.label is None:
                    help = f"if the labels have another key than {key}, name it: --set data.label=KEY"
                    raise DataError("the graph has no label", where=where, why=describe_keys(row), help=help)
                if falls_into(graph.digest(), corpus.share):
                    cells: dict[Any, Any] = {GRAPH: graph, LABEL: graph.label}
                    yield Row(cells, path, number)


def read_graph_inputs(config: Any, path: Path, columns: Sequence[str | int]) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each graph: see ``core.task.Task.row_inputs``."""
    if columns or not has_ending(path, JSON_LINES):
        what = "columns do not apply to graphs, which are JSON lines" if columns else "graphs are read from JSON lines"
        raise ConfigError(what, where=str(path), help="docs/how-to/graphs.md describes the lines")
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield f"{path}:{number}", line


def parse_graph(
    line: str, *, where: str | None = None, key: str | None = "label"
) -> tuple[GraphLine, Mapping[str, Any]]:
    """Return the graph of a line, and its JSON object. Raises DataError if the line is not a graph."""
    row = parse_object(line, where=where)
    return graph_of(row, where=where, key=key), row


def graph_of(row: Mapping[str, Any], *, where: str | None = None, key: str | None = "label") -> GraphLine:
    """Return the graph of an object with ``edges``, and optionally ``nodes``, ``features`` and a label under ``key``.

    ``nodes`` is their number, or a list of their labels. The names of other collections are also accepted:
    ``edge_index`` (two lists), ``num_nodes``, ``node_feat``, ``y``. If ``key`` is None, no label is read.

    Raises:
        DataError: the object is not a valid graph.
    """
    reader = _Reader(row, where)
    pairs = reader.edges()
    kinds, node_count = reader.nodes()
    features = reader.features()
    counts = [count for count in (node_count, None if features is None else len(features)) if count is not None]
    nodes = counts[0] if counts else 1 + max((max(pair) for pair in pairs), default=-1)
    if len({*counts}) > 1:
        raise reader.wrong(
            f"{pluralize_with_verb(counts[0], 'node', 'has', 'have')} {pluralize(counts[1], 'row')} of features"
        )
    if not 0 < nodes <= MAX_NODES:
        why = f"a graph has 1 to {MAX_NODES:,} nodes"
        raise reader.wrong("the graph has no nodes" if nodes <= 0 else f"the graph has {pluralize(nodes, 'node')}", why)
    for number, pair in enumerate(pairs):
        if not 0 <= min(pair) <= max(pair) < nodes:
            raise reader.wrong(
                "an edge leads to a missing node", f"edge {number} is {pair}; nodes are 0 to {nodes - 1:,}"
            )
    edges = np.array(pairs, np.int64).reshape(-1, 2)
    table = np.zeros((nodes, 0), np.float32) if features is None else np.array(features, np.float32).reshape(nodes, -1)
    return GraphLine(where, nodes, edges, table, kinds, None if key is None else reader.label(key))


class _Reader:
    """Parser for the fields of one object, with checks."""

    def __init__(self, row: Mapping[str, Any], where: str | None) -> None:
        self._row, self._where = row, where

    def wrong(self, what: str, why: str | None = None) -> DataError:
        return DataError(what, where=self._where, why=why, help="docs/how-to/graphs.md describes the lines")

    def _get(self, name: str) -> Any:
        return self._row.get(name, self._row.get(OTHER_NAMES[name]))

    def edges(self) -> list[list[int]]:
        edges = self._get("edges")
        if "edges" not in self._row and isinstance(edges, list) and len(edges) == 2:
            ends = [end if isinstance(end, list) else [] for end in edges]
            if len(ends[0]) != len(ends[1]):
                raise self.wrong(
                    "edge_index needs two lists of equal length", f"the lengths are {len(ends[0])} and {len(ends[1])}"
                )
            edges = [list(pair) for pair in zip(*ends, strict=True)]
        if not isinstance(edges, list):
            raise self.wrong(
                "the graph has no edges", f'{describe_keys(self._row)}; write "edges": [] for a graph without edges'
            )
        for number, pair in enumerate(edges):
            if not isinstance(pair, list | tuple) or [type(end) for end in pair] != [int, int]:
                why = f"edge {number} is {shortened(str(pair))}"
                raise self.wrong("an edge must be a list of two nodes", why)
        return [list(pair) for pair in edges]

    def nodes(self) -> tuple[tuple[str, ...], int | None]:
        """Return the labels of the nodes, and the number of nodes if it is stated."""
        nodes = self._get("nodes")
        if nodes is None or type(nodes) is int:
            return (), nodes
        if not isinstance(nodes, list) or not all(type(label) in (str, int) for label in nodes):
            raise self.wrong("nodes must be the number of nodes, or a list of their labels", shortened(str(nodes)))
        return tuple(map(str, nodes)), len(nodes)

    def features(self) -> list[list[float]] | None:
        rows = self._get("features")
        if rows is None:
            return None
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise self.wrong("features must be a list with one list of numbers per node")
        width = len(rows[0]) if rows else 0
        if width > MAX_FEATURES:
            raise self.wrong(f"a node has {pluralize(width, 'feature')}", f"the limit is {MAX_FEATURES:,}")
        for node, row in enumerate(rows):
            if len(row) != width:
                raise self.wrong(f"node {node} has {pluralize(len(row), 'feature')}", f"node 0 has {width}")
            if not all(type(value) in (int, float) and abs(value) < 1e30 and math.isfinite(value) for value in row):
                raise self.wrong(f"a feature of node {node} is not a finite number", shortened(str(row)))
        return rows

    def label(self, key: str) -> str | None:
        label = self._get("label") if key == "label" else self._row.get(key)
        if isinstance(label, list) and len(label) == 1:  # as in other collections
            label = label[0]
        if isinstance(label, bool):
            return str(label).lower()
        if label is not None and not isinstance(label, str | int | float):
            raise self.wrong("the label is neither a text nor a number", shortened(str(label)))
        return None if label is None or not str(label).strip() else str(label).strip()
