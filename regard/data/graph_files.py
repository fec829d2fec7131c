"""Graphs from files: arrays in a .npz, or tables of nodes and edges; all contents are checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.untrusted_files import shortened
from regard.core.wording import did_you_mean, pluralize
from regard.data.column_names import EDGES, NODES, SPLITS, edge_columns, first_of, part_of, unnamed_counters
from regard.data.feature_file import FeatureFile
from regard.data.file_names import has_ending
from regard.data.graphs import PARTS, UNLABELED, Graph, edge_pairs
from regard.data.npz_files import read_arrays, require_sparse
from regard.data.tables import read_cells
from regard.errors import DataError

LARGEST = 1e30  # magnitude of a number in a table
NODE, LABEL, PART = "node", "label", "split"  # columns of a node table; all others are features
NODE_LABELS = ("label", "class", "category", "y")
MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
Arrays = Mapping[str, npt.NDArray[Any]]


def read_graph(
    nodes: Path, edges: Path | None, *, directed: bool = False, features: FeatureFile | None = None
) -> Graph:
    """Return the graph of a .npz file, or of node and edge tables (.csv or .tsv). DataError for invalid contents.

    ``features``: the features for a .npz without any.
    """
    if has_ending(nodes, (".npz",)):
        if edges is not None:
            raise DataError("a .npz file already contains the edges", where=str(edges), help="omit the edge file")
        return _of_arrays(read_arrays(nodes), nodes, directed, features)
    if features is not None:
        raise DataError("a node table already contains the features", where=str(nodes), help="omit data.….features")
    if edges is None:
        raise DataError(
            "a node table needs an edge table", where=str(nodes), help="name the edge table: edges = 'edges.csv'"
        )
    return _of_tables(nodes, edges, directed)


def class_sizes(nodes: Path) -> list[int]:
    """Return the number of nodes of each class, from a .npz or a node table. Only the labels are kept in memory."""
    if has_ending(nodes, (".npz",)):
        labels: Iterable[object] = read_arrays(nodes, "y").get("y", np.zeros(0, np.int64)).ravel().tolist()
        return list(Counter(label for label in labels if label != UNLABELED).values())
    rows = _rows(nodes)
    columns = node_columns(next(rows, (0, list[str]()))[1])
    if columns.label is None:
        return []
    place = columns.label
    return list(Counter(cells[place] for _, cells in rows if len(cells) > place and cells[place]).values())


def _of_arrays(arrays: Arrays, path: Path, directed: bool, file: FeatureFile | None) -> Graph:
    """Return the graph of arrays: x (nodes, features) or x_data, …; edges (number, 2); y; masks; names; classes."""

    def refuse(what: str, why: str | None = None) -> DataError:
        return DataError(what, where=str(path), why=why, help="docs/how-to/graphs.md lists the arrays")

    def array(name: str, kinds: str, dimensions: int) -> npt.NDArray[Any]:
        if name not in arrays:
            raise refuse(f"the array {name} is missing", f"the file has {', '.join(arrays) or 'none'}")
        values = arrays[name]
        if values.dtype.kind not in kinds or values.ndim != dimensions:
            raise refuse(f"{name} has the wrong shape or type", f"it is {values.ndim}-dimensional, {values.dtype}")
        return values

    if file is not None and {"x", "x_data"} & arrays.keys():
        raise refuse("both files contain features", f"the other one is {file.path}")
    if file is None and "x" in arrays:
        require_sparse(array("x", "fiub", 2), path)
    nodes, features, entries, values = _features(arrays, array, refuse) if file is None else _of_file(file)
    edges = array("edges", "iu", 2)
    if edges.shape[1] != 2:
        raise refuse("edges must have shape (number, 2)", f"the shape is {edges.shape}")
    outside = np.flatnonzero(((edges < 0) | (edges >= nodes)).any(1))
    size = pluralize(nodes, "node") if file is None else f"{pluralize(nodes, 'row')} in {file.path}"
    if len(outside):
        row = edges[outside[0]].tolist()
        raise refuse("an edge leads to a missing node", f"edge {outside[0]} is {row}; the graph has {size}")
    labels = array("y", "iu", 1).astype(np.int64) if "y" in arrays else np.full(nodes, UNLABELED, np.int64)
    if len(labels) != nodes or (labels < UNLABELED).any():
        raise refuse(
            "y must have one class per node, −1 for none",
            f"the graph has {size}, y has {pluralize(len(labels), 'value')}",
        )
    number = int(labels.max(initial=-1)) + 1
    if number > 10_000:
        raise refuse("y has too many classes", f"the highest is {number - 1:,}")
    parts = {part: array(name, "b", 1) for part, name in MASKS.items() if name in arrays}
    for part, mask in parts.items():
        if len(mask) != nodes:
            raise refuse(
                f"{MASKS[part]} must have one value per node",
                f"it has {pluralize(len(mask), 'value')} for {pluralize(nodes, 'node')}",
            )
    names = tuple(map(str, array("names", "U", 1).tolist())) if "names" in arrays else ()
    classes = tuple(map(str, array("classes", "U", 1).tolist())) if "classes" in arrays else ()
    if (names and (len({*names}) != nodes)) or (classes and len({*classes}) < number):
        raise refuse("names and classes must be distinct texts, one per node and one per class")
    classes = classes or tuple(map(str, range(number)))
    pairs = edge_pairs(edges.astype(np.int64), nodes, directed=directed)
    return Graph(str(path), nodes, features, pairs, entries, values, labels, classes, parts, names, file)


def _of_file(file: FeatureFile) -> tuple[int, int, npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    return file.nodes, file.features, np.zeros((2, 0), np.int64), np.zeros(0, np.float32)


def _features(
    arrays: Arrays, array: Any, refuse: Any
) -> tuple[int, int, npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Return the numbers of nodes and features, and the indices and values of the nonzero features."""
    if "x" in arrays:
        x = array("x", "fiub", 2)
        entries, (nodes, features) = np.stack(np.nonzero(x)).astype(np.int64), x.shape
        values = x[entries[0], entries[1]].astype(np.float32)
    else:
        data, index, start = array("x_data", "fiub", 1), array("x_indices", "iu", 1), array("x_indptr", "iu", 1)
        shape = array("x_shape", "iu", 1).tolist()
        if len(shape) != 2 or not all(0 < size < 1 << 31 for size in shape) or len(start) != shape[0] + 1:
            raise refuse(
                "x_shape and x_indptr do not match",
                f"x_shape is {shape}, x_indptr has {pluralize(len(start), 'value')}",
            )
        nodes, features = shape
        steps = np.diff(start.astype(np.int64))
        whole = start[0] == 0 and (steps >= 0).all() and start[-1] == len(index) == len(data)
        if not whole or ((index < 0) | (index >= features)).any():
            raise refuse(
                "x is not a matrix in compressed sparse rows",
                "x_indptr must rise from 0 to the number of entries, and x_indices must be below x_shape[1]",
            )
        row = np.repeat(np.arange(nodes, dtype=np.int64), steps)
        code, first = np.unique(row * features + index, return_index=True)
        if len(code) != len(index):
            raise refuse("x has two values for one entry")
        entries, values = np.stack([code // features, code % features]), data[first].astype(np.float32)
    if not np.isfinite(values).all():
        raise refuse("a feature is not a finite number")
    return nodes, features, entries, values


class NodeColumns(NamedTuple):
    """Positions of the columns of a node table. ``counters``: unnamed row numbers, as written by a data frame."""

    name: int | None
    label: int | None
    part: int | None
    features: tuple[int, ...]
    counters: tuple[int, ...]


def node_columns(head: Sequence[str], first: Sequence[Sequence[str]] = ()) -> NodeColumns:
    """Return the columns that the first line of a node table names, in any case; ``first``: some rows below it."""

    def place(*known: str) -> int | None:
        column = first_of(head, known)
        return None if column is None else list(head).index(column)

    name, label, part = place(*NODES), place(*NODE_LABELS), place(*SPLITS)
    counters = unnamed_counters(head, first) if first else []
    used = {name, label, part, *counters}
    features = tuple(number for number in range(len(head)) if number not in used)
    return NodeColumns(name, label, part, features, tuple(counters))


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row that is not blank."""
    for number, cells in read_cells(path, "\t" if has_ending(path, (".tsv", ".tab", ".txt")) else None):
        yield number, [str(cell).strip() for cell in cells]


def _of_tables(nodes: Path, edges: Path, directed: bool) -> Graph:
    rows = list(_rows(nodes))
    head = rows[0][1] if rows else []
    columns = node_columns(head, [cells for _, cells in rows[1:] if len(cells) == len(head)])
    if columns.name is None:
        why = f"the first line names the columns: {NODE} (or id), optionally {LABEL} and {PART}; others are features"
        raise DataError("the node table has no column of names", where=f"{nodes}:1", why=why)
    if not columns.features:
        raise DataError("the nodes have no features", where=f"{nodes}:1", why=f"the columns are {', '.join(head)}")
    if len(rows) < 2:
        raise DataError("the node table has no rows", where=str(nodes), why="it has a header row only")
    names: dict[str, int] = {}
    labels, parts, values = list[str](), list[str](), np.zeros((len(rows) - 1, len(columns.features)), np.float32)
    for place, (number, cells) in enumerate(rows[1:]):
        where = f"{nodes}:{number}"
        if len(cells) != len(head):
            why = f"it has {pluralize(len(cells), 'cell')}; the header row has {pluralize(len(head), 'column')}"
            raise DataError("the row and the header row differ in length", where=where, why=why)
        if names.setdefault(cells[columns.name], place) != place:
            raise DataError(f"the node {cells[columns.name]} occurs twice", where=where)
        values[place] = [_number(cells[column], head[column], where) for column in columns.features]
        labels.append("" if columns.label is None else cells[columns.label])
        part = "" if columns.part is None else cells[columns.part]
        parts.append(part and part_of(part, where))
    classes = tuple(sorted({*labels} - {""}))
    class_numbers = {name: number for number, name in enumerate(classes)} | {"": UNLABELED}
    entries = np.stack(np.nonzero(values)).astype(np.int64)
    masks = {part: np.array([split == part for split in parts], np.bool_) for part in PARTS if part in parts}
    pairs = edge_pairs(_edges(edges, names, nodes), len(names), directed=directed)
    numbers = np.array([class_numbers[label] for label in labels], np.int64)
    nonzero = values[entries[0], entries[1]]
    return Graph(
        str(nodes), len(names), values.shape[1], pairs, entries, nonzero, numbers, classes, masks, tuple(names)
    )  # fmt: skip


def _number(cell: str, column: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not abs(value) < LARGEST:
        why = f"features are finite numbers with a magnitude below {LARGEST:g}"
        raise DataError(f"the feature {column} is {shortened(cell)!r}", where=where, why=why)
    return value


def _edges(path: Path, names: Mapping[str, int], nodes: Path) -> npt.NDArray[np.int64]:
    """Return the two nodes of each line, (number, 2)."""
    ends: list[tuple[int, int]] = []
    columns: tuple[int, int] | None = None
    for number, cells in _rows(path):
        where = f"{path}:{number}"
        if columns is None:
            columns, is_head = edge_ends(cells, where, names)
            if is_head:
                continue
        if len(cells) <= max(columns):
            raise DataError("the edge needs two ends", where=where, why=f"the line is {cells}")
        for column in columns:
            if cells[column] not in names:
                raise DataError(
                    f"the edge leads to {cells[column]!r}, which is not a node", where=where,
                    why=f"{nodes} has {pluralize(len(names), 'node')}",
                    help=did_you_mean(cells[column], list(names)[:10_000]),
                )  # fmt: skip
        ends.append((names[cells[columns[0]]], names[cells[columns[1]]]))
    return np.array(ends, np.int64).reshape(-1, 2)


def edge_ends(cells: Sequence[str], where: str, names: Collection[str] = ()) -> tuple[tuple[int, int], bool]:
    """Return the columns of the two ends of an edge, and whether the first line names the columns.

    A first line without a node is a header. DataError if the header does not identify the two columns.
    """
    columns = edge_columns(cells)
    is_head = not any(cell in names for cell in cells)
    if columns is not None and (is_head or not names):
        return (list(cells).index(columns[0]), list(cells).index(columns[1])), True
    if not is_head or len(cells) < 2:
        return (0, 1), False
    if len(cells) == 2:
        return (0, 1), not any(any(map(str.isdigit, cell)) for cell in cells)
    known = ", ".join(f"{one} and {other}" for one, other in EDGES[:4])
    what = "the first line does not identify the two ends of an edge"
    raise DataError(what, where=where, why=f"no cell in it is a node: {', '.join(cells)}", help=f"name them {known}")


def save_graph(graph: Graph, path: Path) -> None:
    """Write a .npz that ``read_graph`` reads as a directed graph, without features that are in a file."""
    start = np.concatenate([[0], np.bincount(graph.entries[0], minlength=graph.nodes).cumsum()])
    features = {
        "x_data": graph.values,
        "x_indices": graph.entries[1],
        "x_indptr": start,
        "x_shape": np.array([graph.nodes, graph.features]),
    }
    arrays: dict[str, Any] = {
        **(features if graph.file is None else {}),
        "edges": graph.pairs.T,
        "y": graph.labels,
        "classes": np.array(graph.classes, np.str_),
        **{MASKS[part]: mask for part, mask in graph.parts.items()},
    }
    if graph.names:
        arrays["names"] = np.array(graph.names, np.str_)
    np.savez_compressed(path, **arrays)
