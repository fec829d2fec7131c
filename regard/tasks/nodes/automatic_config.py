"""Automatic choice of a node classifier's config for the files of a graph, with the reason of each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.core.wording import pluralize
from regard.data.graph_files import class_sizes
from regard.errors import RegardError
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.detect_files import wide_reasons
from regard.tasks.detect_graph_files import graph_training, one_graph
from regard.tasks.graph_run_config import NodeSplit


def confidence(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``. Reads the files of one graph with labels."""
    return Confidence.FORM if one_graph(files, valid, labeled=True) else Confidence.NONE


def choose(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
    """Return the config of a node classifier for the files of one graph with labels; else None."""
    graph = one_graph(files, valid, labeled=True)
    if graph is None:
        return None
    data: dict[str, Any] = {"train": [graph.corpus], "valid": [graph.corpus]}
    held_out = "validation: the nodes that the files mark for it"
    if not graph.split:
        data["split"], drawn = _split(Path(graph.corpus["source"]))
        held_out = f"random split, because the files do not contain a split: {drawn}"
    betas = {} if "optimizer" in overrides else {"betas": [0.9, 0.999]}
    settings = graph_training(
        overrides, epochs=1000, early_stopping=100, learning_rate=5e-3, weight_decay=5e-4, best_by="accuracy",
        stop_by="either", **betas,
    )  # fmt: skip
    model = {"wide": overrides.get("baseline", True)}
    config = {"task": {"kind": "nodes"}, "data": data, "model": model, "train": settings}
    reasons = [f"{graph.description} → nodes", *graph.columns, held_out]
    return Proposal(config, [*reasons, "network: two layers of graph attention", *wide_reasons(overrides)])


def _split(source: Path) -> tuple[dict[str, int], str]:
    """Return the sizes of a split, empty if the default sizes fit, and their description."""
    default = NodeSplit()
    try:
        classes = class_sizes(source)
    except RegardError:  # reported by the next reader
        classes = []
    left = sum(classes) - sum(min(size, default.per_class) for size in classes)
    if classes and left <= default.valid:
        fitting = NodeSplit.fitting(sum(classes), len(classes))
        if fitting is not None:
            few = f"the {sum(classes):,} labeled nodes are too few for the default split"
            return fitting.sizes, f"{_described(fitting, fitting.test)} ({few})"
    return {}, _described(default, min(default.test, left - default.valid) if left > default.valid else default.test)


def _described(split: NodeSplit, test: int) -> str:
    numbers = [(split.per_class, "training node"), (split.valid, "validation node"), (test, "test node")]
    per_class, valid, held_out = (pluralize(number, noun) for number, noun in numbers)
    return f"{per_class} per class, {valid}, {held_out}"
