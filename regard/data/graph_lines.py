"""Graphs from JSON lines, a graph a line: its edges, features or labels of its nodes, and its own label."""

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

MOST_NODES = 1 << 18  # of one graph: a line may say any number
MOST_FEATURES = 1 << 14
OTHER_NAMES = {"edges": "edge_index", "features": "node_feat", "nodes": "num_nodes", "label": "y"}


@dataclass(frozen=True, eq=False)
class GraphLine:
    """A graph in the form of a line; two are equal if everything is but the place and the label.

    Attributes:
        where: file and line; None of an input.
        nodes: the number of nodes.
        edges: (edges, 2) numbers of nodes.
        features: (nodes, width).
        kinds: a label of each node, or () where nodes have none.
        label: of the graph; None where it has none.
    """

    where: str | None
    nodes: int
    edges: npt.NDArray[np.int64]
    features: npt.NDArray[np.float32]
    kinds: tuple[str, ...]
    label: str | None

    def digest(self) -> str:
        """A hash of all but the label and the place."""
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
    """Yield the graphs of files under GRAPH, and the labels that stand under ``key`` under LABEL.

    Raises:
        DataError: with file and line, for a line that is no graph or has no label.
    """
    for corpus in corpora:
        for path in named_files(corpus.source):
            refuse_pipe(path)
            for number, line in enumerate(read_lines(path), start=1):
                if not line.strip():
                    continue
                where = f"{path}:{number}"
                found, row = parse_graph(line, where=where, key=key)
                if found.label is None:
                    help = f"name the key of the labels where it is not {key}: --set data.label=KEY"
                    raise DataError("the graph has no label", where=where, why=describe_keys(row), help=help)
                if falls_into(found.digest(), corpus.share):
                    cells: dict[Any, Any] = {GRAPH: found, LABEL: found.label}
                    yield Row(cells, path, number)


def read_graph_inputs(config: Any, path: Path, given: Sequence[str | int]) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each graph: see ``core.task.Task.row_inputs``."""
    if given or not has_ending(path, JSON_LINES):
        what = "a graph is a line of JSON" if given else "graphs are read from JSON lines"
        raise ConfigError(what, where=str(path), help="docs/how-to/graphs.md says what a line holds")
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield f"{path}:{number}", line


def parse_graph(
    line: str, *, where: str | None = None, key: str | None = "label"
) -> tuple[GraphLine, Mapping[str, Any]]:
    """Return the graph of a line, and the object that it is. Raises DataError if it is none."""
    row = parse_object(line, where=where)
    return graph_of(row, where=where, key=key), row


def graph_of(row: Mapping[str, Any], *, where: str | None = None, key: str | None = "label") -> GraphLine:
    """Return the graph of an object with ``edges``, and perhaps ``nodes``, ``features`` and a label under ``key``.

    ``nodes`` is their number, or a list of their labels. The names of other collections are read, too: ``edge_index``
    (two lists), ``num_nodes``, ``node_feat``, ``y``. Without a key no label is read.

    Raises:
        DataError: something is wrong with it.
    """
    reader = _Reader(row, where)
    pairs = reader.edges()
    kinds, number = reader.nodes()
    features = reader.features()
    counts = [count for count in (number, None if features is None else len(features)) if count is not None]
    nodes = counts[0] if counts else 1 + max((max(pair) for pair in pairs), default=-1)
    if len({*counts}) > 1:
        raise reader.wrong(
            f"{pluralize_with_verb(counts[0], 'node', 'has', 'have')} {pluralize(counts[1], 'row')} of features"
        )
    if not 0 < nodes <= MOST_NODES:
        why = f"a graph has 1 to {MOST_NODES:,} nodes"
        raise reader.wrong("the graph has no node" if nodes <= 0 else f"the graph has {pluralize(nodes, 'node')}", why)
    for place, pair in enumerate(pairs):
        if not 0 <= min(pair) <= max(pair) < nodes:
            raise reader.wrong("an edge leads to no node", f"edge {place} is {pair}, and nodes are 0 to {nodes - 1:,}")
    edges = np.array(pairs, np.int64).reshape(-1, 2)
    table = np.zeros((nodes, 0), np.float32) if features is None else np.array(features, np.float32).reshape(nodes, -1)
    return GraphLine(where, nodes, edges, table, kinds, None if key is None else reader.label(key))


class _Reader:
    """The parts of one object, each checked."""

    def __init__(self, row: Mapping[str, Any], where: str | None) -> None:
        self._row, self._where = row, where

    def wrong(self, what: str, why: str | None = None) -> DataError:
        return DataError(what, where=self._where, why=why, help="docs/how-to/graphs.md says what a line holds")

    def _get(self, name: str) -> Any:
        return self._row.get(name, self._row.get(OTHER_NAMES[name]))

    def edges(self) -> list[list[int]]:
        found = self._get("edges")
        if "edges" not in self._row and isinstance(found, list) and len(found) == 2:
            ends = [end if isinstance(end, list) else [] for end in found]
            if len(ends[0]) != len(ends[1]):
                raise self.wrong("edge_index has two lists of as many nodes", f"{len(ends[0])} and {len(ends[1])}")
            found = [list(pair) for pair in zip(*ends, strict=True)]
        if not isinstance(found, list):
            raise self.wrong("the graph has no edges", f'{describe_keys(self._row)}; without any it is "edges": []')
        for place, pair in enumerate(found):
            if not isinstance(pair, list | tuple) or [type(end) for end in pair] != [int, int]:
                why = f"edge {place} is {shortened(str(pair))}"
                raise self.wrong("an edge is no list of two nodes", why)
        return [list(pair) for pair in found]

    def nodes(self) -> tuple[tuple[str, ...], int | None]:
        """The labels of nodes, and their number where it is told."""
        found = self._get("nodes")
        if found is None or type(found) is int:
            return (), found
        if not isinstance(found, list) or not all(type(each) in (str, int) for each in found):
            raise self.wrong("nodes is the number of nodes, or a list of their labels", shortened(str(found)))
        return tuple(map(str, found)), len(found)

    def features(self) -> list[list[float]] | None:
        found = self._get("features")
        if found is None:
            return None
        if not isinstance(found, list) or not all(isinstance(each, list) for each in found):
            raise self.wrong("features has a list of numbers for each node")
        width = len(found[0]) if found else 0
        if width > MOST_FEATURES:
            raise self.wrong(f"a node has {pluralize(width, 'feature')}", f"{MOST_FEATURES:,} are read")
        for node, each in enumerate(found):
            if len(each) != width:
                raise self.wrong(f"node {node} has {pluralize(len(each), 'feature')}", f"node 0 has {width}")
            if not all(type(value) in (int, float) and abs(value) < 1e30 and math.isfinite(value) for value in each):
                raise self.wrong(f"a feature of node {node} is no finite number", shortened(str(each)))
        return found

    def label(self, key: str) -> str | None:
        found = self._get("label") if key == "label" else self._row.get(key)
        if isinstance(found, list) and len(found) == 1:  # as other collections have it
            found = found[0]
        if isinstance(found, bool):
            return str(found).lower()
        if found is not None and not isinstance(found, str | int | float):
            raise self.wrong("the label is neither a text nor a number", shortened(str(found)))
        return None if found is None or not str(found).strip() else str(found).strip()
