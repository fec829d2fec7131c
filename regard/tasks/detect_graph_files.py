"""Detection of a graph in files by their first rows, and settings of training for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.config.settings import TRAINING_ENDS
from regard.core.wording import pluralize
from regard.data.column_names import edge_columns, session_columns
from regard.data.file_names import has_ending
from regard.data.graph_files import NodeColumns, node_columns
from regard.data.npz_files import array_names
from regard.data.tables import read_cells
from regard.errors import RegardError

SAMPLED = 100  # rows of a table that are read to recognize it
MASKS = {"train_mask", "val_mask"}


class DetectedGraph(NamedTuple):
    """A graph in files.

    Attributes:
        corpus: the files, as a config names them.
        labeled: whether nodes have classes.
        split: whether nodes are assigned to parts.
        description: the description of the files, for people.
        columns: lines that list the columns that are read.
    """

    corpus: dict[str, str]
    labeled: bool
    split: bool
    description: str
    columns: list[str]


def detect_graph(files: Sequence[Path]) -> DetectedGraph | None:
    """Return the graph in a .npz with edges and an optional .npy of features, or in a node table and an edge table.

    The tables may be in either order. Returns None for other files.
    """
    if not all(file.is_file() for file in files):
        return None
    if [file.suffix.lower() for file in files] in ([".npz"], [".npz", ".npy"]):
        return _of_arrays(files)
    if len(files) != 2 or not all(has_ending(file, (".csv", ".tsv", ".tab")) for file in files):
        return None
    return _of_tables(files[0], files[1]) or _of_tables(files[1], files[0])


def one_graph(files: Sequence[Path], valid: Sequence[Path], *, labeled: bool | None) -> DetectedGraph | None:
    """Return the graph of these files if its nodes have labels (``labeled``) or do not have labels; else None.

    For ``labeled`` = None, nodes may or may not have labels. A graph contains its validation data, so no file may be in
    ``valid``.
    """
    graph = None if valid else detect_graph(files)
    return None if graph is None or labeled not in (None, graph.labeled) else graph


def graph_training(
    overrides: Mapping[str, Any], *, epochs: int, early_stopping: int, **settings: Any
) -> dict[str, Any]:
    """Return the settings of training for one graph, where an epoch is one update.

    Args:
        given: the keys of ``train`` that the user sets; if they limit training, epochs and early stopping are left out.
        epochs: the number of epochs.
        early_stopping: validations without improvement before training stops.
        settings: further keys.
    """
    shared = {
        "optimizer": "adam", "schedule": "constant", "warmup": 0, "precision": "float32", "validate_every": 1,
        "save_every": 100_000, "keep": 1,
    }  # fmt: skip
    ends = {} if {*TRAINING_ENDS} & overrides.keys() else {"epochs": epochs, "early_stopping": early_stopping}
    return shared | settings | ends


def _of_tables(nodes: Path, edges: Path) -> DetectedGraph | None:
    try:
        (head, *first), (edge, *_) = (_first_rows(file) for file in (nodes, edges))
    except (RegardError, ValueError):  # reported by the next reader
        return None
    columns = node_columns(head, first)
    if columns.name is None or len(edge) < 2 or edge_columns(head) is not None or session_columns(head) is not None:
        return None
    if not head[columns.name].lower().startswith("node") and (edge_columns(edge) is None or edge == head):
        return None  # "id" and "name" are column names of many other tables
    corpus, labeled = {"source": str(nodes), "edges": str(edges)}, columns.label is not None
    description = f"node table {'with' if labeled else 'without'} labels, and edge table"
    lines = _describe_columns(head, columns, edge, edges)
    return DetectedGraph(corpus, labeled, columns.part is not None, description, lines)


def _describe_columns(head: Sequence[str], columns: NodeColumns, edge: Sequence[str], edges: Path) -> list[str]:
    """Return lines that list the columns that are read and those that are not."""
    parts = {"node": columns.name, "label": columns.label, "part": columns.part}
    named = [f"{head[place]} ({role})" for role, place in parts.items() if place is not None]
    left = [f"column {place + 1} (unnamed row numbers)" for place in columns.counters]
    lines = [
        f"node table, columns read: {', '.join(named)}, {pluralize(len(columns.features), 'feature')}"
        + (f"; not read: {', '.join(left)}" if left else "")
    ]
    ends = edge_columns(edge)
    if ends is not None:
        unread = [name or "(unnamed)" for name in edge if name not in ends]
        rest = f"; not read: {', '.join(unread)}" if unread else ""
        lines.append(f"edge table, columns read: {ends[0]} and {ends[1]}{rest}")
    elif len(edge) > 2:
        lines.append(f"{edges}: only the first two of {pluralize(len(edge), 'column')} are read, the ends of an edge")
    return lines


def _of_arrays(files: Sequence[Path]) -> DetectedGraph | None:
    try:
        names = {*array_names(files[0])}
    except RegardError:  # reported by the next reader
        return None
    if "edges" not in names:
        return None
    labeled = "y" in names
    corpus = dict(zip(("source", "features"), map(str, files), strict=False))
    return DetectedGraph(corpus, labeled, names >= MASKS, f"graph {'with' if labeled else 'without'} classes", [])


def _first_rows(path: Path) -> list[list[str]]:
    """Return the cells of the first rows of a table."""
    separator = None if has_ending(path, (".csv",)) else "\t"
    return [[str(cell).strip() for cell in row.cells] for row in islice(read_cells(path, separator), SAMPLED)]
