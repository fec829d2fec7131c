"""The automatic choice for files of one graph: their contents by the first lines, and settings of training."""

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


class FoundGraph(NamedTuple):
    """A graph in files.

    Attributes:
        corpus: the files as a config names them.
        labeled: whether nodes have classes.
        split: whether they have parts.
        description: of the files, for the reason of a choice.
        columns: lines that state which columns are read.
    """

    corpus: dict[str, str]
    labeled: bool
    split: bool
    description: str
    columns: list[str]


def found_graph(files: Sequence[Path]) -> FoundGraph | None:
    """Return the graph of a .npz with edges, perhaps with a .npy of features, or of a table of nodes and one of edges.

    The tables may be in either order. None if the files are none of these.
    """
    if not all(file.is_file() for file in files):
        return None
    if [file.suffix.lower() for file in files] in ([".npz"], [".npz", ".npy"]):
        return _of_arrays(files)
    if len(files) != 2 or not all(has_ending(file, (".csv", ".tsv", ".tab")) for file in files):
        return None
    return _of_tables(files[0], files[1]) or _of_tables(files[1], files[0])


def one_graph(files: Sequence[Path], valid: Sequence[Path], *, labeled: bool) -> FoundGraph | None:
    """Return the graph of these files, if its nodes have labels, or have none.

    A graph has its own validation data, so that there are no files of those.
    """
    graph = None if valid else found_graph(files)
    return None if graph is None or graph.labeled != labeled else graph


def graph_training(given: Mapping[str, Any], *, epochs: int, early_stopping: int, **settings: Any) -> dict[str, Any]:
    """Return settings of training for one graph, which is an update: it ends by epochs unless ``given`` says how."""
    shared = {
        "optimizer": "adam", "schedule": "constant", "warmup": 0, "precision": "float32", "validate_every": 1,
        "save_every": 100_000, "keep": 1,
    }  # fmt: skip
    ends = {} if {*TRAINING_ENDS} & given.keys() else {"epochs": epochs, "early_stopping": early_stopping}
    return shared | settings | ends


def _of_tables(nodes: Path, edges: Path) -> FoundGraph | None:
    try:
        (head, *first), (edge, *_) = (_first_rows(file) for file in (nodes, edges))
    except (RegardError, ValueError):  # reported by the next reader
        return None
    columns = node_columns(head, first)
    if columns.name is None or len(edge) < 2 or edge_columns(head) is not None or session_columns(head) is not None:
        return None
    if not head[columns.name].lower().startswith("node") and (edge_columns(edge) is None or edge == head):
        return None  # "id" and "name" are columns of many tables
    corpus, labeled = {"source": str(nodes), "edges": str(edges)}, columns.label is not None
    description = f"one table of nodes {'with' if labeled else 'without'} labels, and one of edges"
    lines = _describe_columns(head, columns, edge, edges)
    return FoundGraph(corpus, labeled, columns.part is not None, description, lines)


def _describe_columns(head: Sequence[str], columns: NodeColumns, edge: Sequence[str], edges: Path) -> list[str]:
    """Return lines that state the columns that are read and those that are not."""
    parts = {"node": columns.name, "label": columns.label, "part": columns.part}
    named = [f"{head[place]} ({role})" for role, place in parts.items() if place is not None]
    left = [f"column {place + 1}, which has no name and counts rows" for place in columns.counters]
    lines = [
        f"columns of nodes: {', '.join(named)}, {pluralize(len(columns.features), 'feature')}"
        + (f"; not read: {', '.join(left)}" if left else "")
    ]
    ends = edge_columns(edge)
    if ends is not None:
        others = [name or "(unnamed)" for name in edge if name not in ends]
        rest = f"; not read: {', '.join(others)}" if others else ""
        lines.append(f"columns of edges: {ends[0]} and {ends[1]}{rest}")
    elif len(edge) > 2:
        lines.append(f"{edges}: the first two of {pluralize(len(edge), 'column')} are the ends of an edge")
    return lines


def _of_arrays(files: Sequence[Path]) -> FoundGraph | None:
    try:
        names = {*array_names(files[0])}
    except RegardError:  # reported by the next reader
        return None
    if "edges" not in names:
        return None
    labeled = "y" in names
    corpus = dict(zip(("source", "features"), map(str, files), strict=False))
    return FoundGraph(corpus, labeled, names >= MASKS, f"it has edges and {'' if labeled else 'no '}classes", [])


def _first_rows(path: Path) -> list[list[str]]:
    """Return the cells of the first rows of a table."""
    separator = None if has_ending(path, (".csv",)) else "\t"
    return [[str(cell).strip() for cell in row.cells] for row in islice(read_cells(path, separator), SAMPLED)]
