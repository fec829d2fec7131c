"""The graph of a run: read from files, divided into parts, and saved with the trained run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.core.task import RunFiles
from regard.core.untrusted_files import FileVersion
from regard.core.wording import pluralize, pluralize_with_verb
from regard.data.feature_file import FeatureFile
from regard.data.graph_files import read_graph, save_graph
from regard.data.graphs import PARTS, UNLABELED, Graph, normalized_rows
from regard.errors import DataError, ModelError
from regard.tasks.graph_run_config import GraphDataConfig, GraphFilesConfig, NodeSplit

FEATURES = "features.npy"  # saved next to GRAPH, if the features are in their own file
GRAPH = "graph.npz"  # saved in the folder of tokenizers, because predictions need the graph


def only_graph(files: Sequence[GraphFilesConfig], where: str) -> GraphFilesConfig:
    """Return the files of the only graph of a run.

    An evaluation lists nodes and edges, or arrays and features, as consecutive entries, which are joined.

    Raises:
        DataError: for several graphs.
    """
    if len(files) == 2 and files[0].edges is None and files[0].source.suffix != ".npz":
        return files[0].model_copy(update={"edges": files[1].source})
    if len(files) == 2 and files[0].features is None and files[1].source.suffix == ".npy":
        return files[0].model_copy(update={"features": files[1].source})
    if len(files) != 1:
        raise DataError(f"a run requires exactly one graph, found {len(files)}", where=where)
    return files[0]


def graph_of(files: GraphFilesConfig, data: GraphDataConfig) -> Graph:
    """Return the graph in these files, normalized and with the parts of the config."""
    optional = (None if path is None else FileVersion.of(path) for path in (files.edges, files.features))
    graph = _read(FileVersion.of(files.source), *optional, directed=data.directed, by_rows=data.normalize == "rows")
    return graph if data.split is None else replace(graph, parts=_drawn(graph, data.split))


@lru_cache(maxsize=2)  # training and validation are often one graph
def _read(
    source: FileVersion, edges: FileVersion | None, features: FileVersion | None, *, directed: bool, by_rows: bool
) -> Graph:
    file = None if features is None else FeatureFile(features.path, by_rows=by_rows)
    graph = read_graph(source.path, edges and edges.path, directed=directed, features=file)
    return replace(graph, values=normalized_rows(graph.entries, graph.values, graph.nodes)) if by_rows else graph


def _drawn(graph: Graph, split: NodeSplit) -> dict[str, npt.NDArray[np.bool_]]:
    """Draw the masks of the parts: ``per_class`` training nodes per class, then validation and test nodes."""
    order = np.random.default_rng([split.seed, 7]).permutation(np.flatnonzero(graph.labels != UNLABELED))
    labels = graph.labels[order]
    rank = np.zeros(len(order), np.int64)
    for label in range(len(graph.classes)):
        members = labels == label
        rank[members] = np.arange(members.sum())
    first, rest = order[rank < split.per_class], order[rank >= split.per_class]
    if len(rest) < split.valid:
        why = f"{pluralize_with_verb(len(order), 'node', 'has', 'have')} a label, {len(first):,} of them for training"
        what = f"too few labeled nodes for {pluralize(split.valid, 'validation node')}"
        raise DataError(what, where=graph.where, why=why, help=_fitting(len(order), len(graph.classes)))
    chosen = {"train": first, "valid": rest[: split.valid], "test": rest[split.valid : split.valid + split.test]}
    masks = {part: np.zeros(graph.nodes, np.bool_) for part in PARTS}
    for part, nodes in chosen.items():
        masks[part][nodes] = True
    return masks


def _fitting(labeled: int, classes: int) -> str | None:
    """Return the options of a split for this number of labeled nodes; None if they are too few."""
    split = NodeSplit.fitting(labeled, classes)
    if split is None:
        return None
    return " ".join(f"--set data.split.{name}={size}" for name, size in split.sizes.items())


def nodes_of_part(graph: Graph, part: str) -> npt.NDArray[np.bool_]:
    """Return the mask of the labeled nodes of a part; of all labeled nodes, if the graph has no parts.

    Raises:
        DataError: if no node is selected.
    """
    chosen = graph.labels != UNLABELED
    if part != "all" and graph.parts:
        chosen = chosen & graph.parts.get(part, np.zeros_like(chosen))
    if not chosen.any():
        why = f"the parts of the graph are {', '.join(graph.parts)}" if graph.parts else "the graph has no parts"
        help = "add masks or a column split to the graph, or set data.split to draw parts"
        raise DataError(f"no node of the part {part} has a label", where=graph.where, why=why, help=help)
    return chosen


def save_in_run(graph: Graph, run: RunFiles) -> None:
    """Save the graph as the network reads it, for predictions."""
    run.tokenizers.mkdir(parents=True, exist_ok=True)
    save_graph(graph, run.tokenizers / GRAPH)
    if graph.file is not None:
        graph.file.copy(run.tokenizers / FEATURES)


def open_saved(run: RunFiles) -> Graph:
    """Return the graph of a trained run; raise ModelError if it is missing or damaged."""
    try:
        features = run.tokenizers / FEATURES
        file = FeatureFile(features) if features.exists() else None
        return read_graph(run.tokenizers / GRAPH, None, directed=True, features=file)
    except DataError as error:
        where, why = error.where, error.why or error.what
        raise ModelError(
            "cannot read the graph of the run", where=where, why=why, help="copy the complete run folder again"
        ) from error


def is_evaluation(run: RunFiles) -> bool:
    """Return whether files are opened for an evaluation, which accepts any contents."""
    known: Any = run.contents
    return known is not None and not known
