"""The automatic choice of a classifier of nodes for the files of a graph, with the reason of each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.graph_files import class_sizes
from regard.errors import RegardError
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.graph_found import graph_training, one_graph
from regard.tasks.graph_run_config import NodeSplit


def confidence(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``: for the files of one graph with labels."""
    return Confidence.FORM if one_graph(files, valid, labeled=True) else Confidence.NONE


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """Choose a classifier of nodes for the files of one graph with labels; else None."""
    graph = one_graph(files, valid, labeled=True)
    if graph is None:
        return None
    data: dict[str, Any] = {"train": [graph.corpus], "valid": [graph.corpus]}
    held_out = "validates on the nodes that the files name for it"
    if not graph.split:
        data["split"], drawn = _split(Path(graph.corpus["source"]))
        held_out = f"the files name no nodes to train and validate on: {drawn}"
    betas = {} if "optimizer" in given else {"betas": [0.9, 0.999]}
    settings = graph_training(
        given, epochs=1000, early_stopping=100, learning_rate=5e-3, weight_decay=5e-4, best_by="accuracy",
        stop_by="either", **betas,
    )  # fmt: skip
    config = {"task": {"kind": "nodes"}, "data": data, "train": settings}
    reasons = [f"{graph.description}: classes of nodes (task.kind = nodes)", *graph.columns, held_out]
    return Proposal(config, [*reasons, "two layers of graph attention"])


def _split(source: Path) -> tuple[dict[str, int], str]:
    """Return the sizes of a split, none where the default ones fit, and their description."""
    default = NodeSplit()
    try:
        classes = class_sizes(source)
    except RegardError:  # reported by the next reader
        classes = []
    left = sum(classes) - sum(min(size, default.per_class) for size in classes)
    if classes and left <= default.valid:
        fitting = NodeSplit.fitting(sum(classes), len(classes))
        if fitting is not None:
            few = f"the {sum(classes):,} with a label are too few for the usual split"
            return fitting.sizes, f"{_described(fitting, fitting.test)}; {few}"
    return {}, _described(default, min(default.test, left - default.valid) if left > default.valid else default.test)


def _described(split: NodeSplit, test: int) -> str:
    return f"{split.per_class:,} of each class, {split.valid:,} to validate and {test:,} to test on are drawn by a seed"
