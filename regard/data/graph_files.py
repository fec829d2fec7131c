"""Graphs from files: .npz of arrays, or tables of nodes and of edges; all that they say is checked."""

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

LARGEST = 1e30  # number of a table
NODE, LABEL, PART = "node", "label", "split"  # columns of a table of nodes; all others are features
NODE_LABELS = ("label", "class", "category", "y")
MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
Arrays = Mapping[str, npt.NDArray[Any]]


def read_graph(
    nodes: Path, edges: Path | None, *, directed: bool = False, features: FeatureFile | None = None
) -> Graph:
    """The graph of a .npz file, or of a .csv or .tsv of nodes and one of edges. DataError for what is wrong with it.

    ``features``: those of a .npz that has none itself.
    """
    if has_ending(nodes, (".npz",)):
        if edges is not None:
            raise DataError("a .npz has its edges in itself", where=str(edges), help="leave the file of edges out")
        return _of_arrays(read_arrays(nodes), nodes, directed, features)
    if features is not None:
        raise DataError("a table of nodes has its features itself", where=str(nodes), help="leave data.….features out")
    if edges is None:
        raise DataError(
            "there are nodes without edges", where=str(nodes), help="name the table of edges: edges = 'edges.csv'"
        )
    return _of_tables(nodes, edges, directed)


def class_sizes(nodes: Path) -> list[int]:
    """The number of nodes of each class, of a .npz or a table of nodes; nothing but labels is kept."""
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
    """x (nodes, features), or x_data, x_indices, x_indptr and x_shape; edges (number, 2); y; masks; see the docs."""

    def refuse(what: str, why: str | None = None) -> DataError:
        return DataError(what, where=str(path), why=why, help="docs/how-to/graphs.md says which arrays there are")

    def array(name: str, kinds: str, dimensions: int) -> npt.NDArray[Any]:
        if name not in arrays:
            raise refuse(f"there is no array {name}", f"it has {', '.join(arrays) or 'none'}")
        found = arrays[name]
        if found.dtype.kind not in kinds or found.ndim != dimensions:
            raise refuse(f"{name} cannot be used", f"it is {found.ndim}-dimensional, of {found.dtype}")
        return found

    if file is not None and {"x", "x_data"} & arrays.keys():
        raise refuse("there are features in both files", f"{file.path} has some, too")
    if file is None and "x" in arrays:
        require_sparse(array("x", "fiub", 2), path)
    nodes, features, entries, values = _features(arrays, array, refuse) if file is None else _of_file(file)
    edges = array("edges", "iu", 2)
    if edges.shape[1] != 2:
        raise refuse("edges are (number, 2)", f"they are {edges.shape}")
    outside = np.flatnonzero(((edges < 0) | (edges >= nodes)).any(1))
    told = pluralize(nodes, "node") if file is None else f"{pluralize(nodes, 'row')} in {file.path}"
    if len(outside):
        row = edges[outside[0]].tolist()
        raise refuse("an edge leads to no node", f"edge {outside[0]} is {row}, and there are {told}")
    labels = array("y", "iu", 1).astype(np.int64) if "y" in arrays else np.full(nodes, UNLABELED, np.int64)
    if len(labels) != nodes or (labels < UNLABELED).any():
        raise refuse("y has a class of each node, −1 for none", f"there are {told} and {len(labels):,} in y")
    number = int(labels.max(initial=-1)) + 1
    if number > 10_000:
        raise refuse("y has too many classes", f"the highest is {number - 1:,}")
    parts = {part: array(name, "b", 1) for part, name in MASKS.items() if name in arrays}
    for part, mask in parts.items():
        if len(mask) != nodes:
            raise refuse(f"{MASKS[part]} is not of these nodes", f"it has {len(mask):,}, not {nodes:,}")
    names = tuple(map(str, array("names", "U", 1).tolist())) if "names" in arrays else ()
    classes = tuple(map(str, array("classes", "U", 1).tolist())) if "classes" in arrays else ()
    if (names and (len({*names}) != nodes)) or (classes and len({*classes}) < number):
        raise refuse("names are different texts, one for each node, and so are classes")
    classes = classes or tuple(map(str, range(number)))
    pairs = edge_pairs(edges.astype(np.int64), nodes, directed=directed)
    return Graph(str(path), nodes, features, pairs, entries, values, labels, classes, parts, names, file)


def _of_file(file: FeatureFile) -> tuple[int, int, npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    return file.nodes, file.features, np.zeros((2, 0), np.int64), np.zeros(0, np.float32)


def _features(
    arrays: Arrays, array: Any, refuse: Any
) -> tuple[int, int, npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Nodes, features, and what of them is not 0."""
    if "x" in arrays:
        x = array("x", "fiub", 2)
        entries, (nodes, features) = np.stack(np.nonzero(x)).astype(np.int64), x.shape
        values = x[entries[0], entries[1]].astype(np.float32)
    else:
        data, index, start = array("x_data", "fiub", 1), array("x_indices", "iu", 1), array("x_indptr", "iu", 1)
        shape = array("x_shape", "iu", 1).tolist()
        if len(shape) != 2 or not all(0 < each < 1 << 31 for each in shape) or len(start) != shape[0] + 1:
            raise refuse("x_shape and x_indptr do not agree", f"{shape} and {pluralize(len(start), 'place')}")
        nodes, features = shape
        steps = np.diff(start.astype(np.int64))
        whole = start[0] == 0 and (steps >= 0).all() and start[-1] == len(index) == len(data)
        if not whole or ((index < 0) | (index >= features)).any():
            raise refuse(
                "x is no matrix in compressed rows", "places go up to the number of entries, and columns exist"
            )
        row = np.repeat(np.arange(nodes, dtype=np.int64), steps)
        code, first = np.unique(row * features + index, return_index=True)
        if len(code) != len(index):
            raise refuse("x has an entry twice")
        entries, values = np.stack([code // features, code % features]), data[first].astype(np.float32)
    if not np.isfinite(values).all():
        raise refuse("a feature is no finite number")
    return nodes, features, entries, values


class NodeColumns(NamedTuple):
    """Places of the columns of a table of nodes; ``counters``: the index of a data frame, without a name."""

    name: int | None
    label: int | None
    part: int | None
    features: tuple[int, ...]
    counters: tuple[int, ...]


def node_columns(head: Sequence[str], first: Sequence[Sequence[str]] = ()) -> NodeColumns:
    """Return the columns that the first line of a table of nodes names, in any case; ``first``: a few rows below it."""

    def place(*known: str) -> int | None:
        column = first_of(head, known)
        return None if column is None else list(head).index(column)

    name, label, part = place(*NODES), place(*NODE_LABELS), place(*SPLITS)
    counters = unnamed_counters(head, first) if first else []
    used = {name, label, part, *counters}
    features = tuple(at for at in range(len(head)) if at not in used)
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
        why = f"the first line names the columns: {NODE} (or id), {LABEL} and {PART} if they exist; others are features"
        raise DataError("there is no column of names", where=f"{nodes}:1", why=why)
    if not columns.features:
        raise DataError("the nodes have no features", where=f"{nodes}:1", why=f"the columns are {', '.join(head)}")
    if len(rows) < 2:
        raise DataError("the table has no nodes", where=str(nodes), why="it holds nothing but the names of its columns")
    names: dict[str, int] = {}
    labels, parts, values = list[str](), list[str](), np.zeros((len(rows) - 1, len(columns.features)), np.float32)
    for place, (number, cells) in enumerate(rows[1:]):
        where = f"{nodes}:{number}"
        if len(cells) != len(head):
            why = f"it has {pluralize(len(cells), 'cell')}, and the first line names {pluralize(len(head), 'column')}"
            raise DataError("a node has not the columns of the first line", where=where, why=why)
        if names.setdefault(cells[columns.name], place) != place:
            raise DataError(f"the node {cells[columns.name]} stands there twice", where=where)
        values[place] = [_number(cells[at], head[at], where) for at in columns.features]
        labels.append("" if columns.label is None else cells[columns.label])
        part = "" if columns.part is None else cells[columns.part]
        parts.append(part and part_of(part, where))
    classes = tuple(sorted({*labels} - {""}))
    of = {name: number for number, name in enumerate(classes)} | {"": UNLABELED}
    entries = np.stack(np.nonzero(values)).astype(np.int64)
    masks = {part: np.array([each == part for each in parts], np.bool_) for part in PARTS if part in parts}
    pairs = edge_pairs(_edges(edges, names, nodes), len(names), directed=directed)
    numbers = np.array([of[each] for each in labels], np.int64)
    nonzero = values[entries[0], entries[1]]
    return Graph(
        str(nodes), len(names), values.shape[1], pairs, entries, nonzero, numbers, classes, masks, tuple(names)
    )  # fmt: skip


def _number(cell: str, column: str, where: str) -> float:
    try:
        found = float(cell)
    except ValueError:
        found = math.nan
    if not abs(found) < LARGEST:
        why = f"features are finite numbers, below {LARGEST:g} in size"
        raise DataError(f"the feature {column} is {shortened(cell)!r}", where=where, why=why)
    return found


def _edges(path: Path, names: Mapping[str, int], nodes: Path) -> npt.NDArray[np.int64]:
    """Return the nodes of each line, (number, 2)."""
    ends: list[tuple[int, int]] = []
    places: tuple[int, int] | None = None
    for number, cells in _rows(path):
        where = f"{path}:{number}"
        if places is None:
            places, is_head = edge_places(cells, where, names)
            if is_head:
                continue
        if len(cells) <= max(places):
            raise DataError("an edge has two ends", where=where, why=f"the line is {cells}")
        for place in places:
            if cells[place] not in names:
                raise DataError(
                    f"an edge leads to {cells[place]!r}, which is no node", where=where,
                    why=f"{nodes} has {pluralize(len(names), 'node')}",
                    help=did_you_mean(cells[place], list(names)[:10_000]),
                )  # fmt: skip
        ends.append((names[cells[places[0]]], names[cells[places[1]]]))
    return np.array(ends, np.int64).reshape(-1, 2)


def edge_places(cells: Sequence[str], where: str, names: Collection[str] = ()) -> tuple[tuple[int, int], bool]:
    """Return the places of both ends of an edge, and whether the first line of the table names the columns.

    A first line of which no cell is a node names them. DataError where it does not tell which two they are.
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
    what = "the first line does not tell which columns are the ends of an edge"
    raise DataError(
        what, where=where, why=f"no cell of it is a node; its cells are {', '.join(cells)}", help=f"name them {known}"
    )


def save_graph(graph: Graph, path: Path) -> None:
    """Write the .npz that ``read_graph`` reads as a directed graph; without features that lie in a file."""
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
