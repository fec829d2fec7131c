"""A config for the files of a graph that nobody wrote a recipe for, each choice with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.config.settings import TRAINING_ENDS
from regard.data.graph_files import class_sizes
from regard.errors import RegardError
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.graph_found import found_graph
from regard.tasks.graph_run_config import NodeSplit

__all__ = ["choose", "confidence"]


def confidence(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``: for the files of one graph with labels."""
    graph = None if valid else found_graph(files)
    return Confidence.NONE if graph is None or not graph.labelled else Confidence.FORM


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """A classifier of nodes, for the files of one graph with labels; None for any other files."""
    graph = None if valid else found_graph(files)  # a graph holds its own validation nodes
    if graph is None or not graph.labelled:
        return None
    data: dict[str, Any] = {"train": [graph.corpus], "valid": [graph.corpus]}
    told = "validates on the nodes that the files name for it"
    if not graph.split:
        data["split"], drawn = _split(Path(graph.corpus["source"]))
        told = f"the files name no nodes to train and validate on: {drawn}"
    settings: dict[str, Any] = {
        "optimizer": "adam", "learning_rate": 5e-3, "betas": [0.9, 0.999], "weight_decay": 5e-4, "schedule": "constant",
        "warmup": 0, "precision": "float32", "best_by": "accuracy", "stop_by": "either", "validate_every": 1,
        "save_every": 100_000, "keep": 1,
    }  # fmt: skip
    settings = {name: value for name, value in settings.items() if "optimizer" not in given or name != "betas"}
    if not set(TRAINING_ENDS) & given.keys():
        settings |= {"epochs": 1000, "early_stopping": 100}
    config = {"task": {"kind": "nodes"}, "data": data, "train": settings}
    reasons = [f"{graph.told}: classes of nodes (task.kind = nodes)", *graph.columns, told]
    return Proposal(config, [*reasons, "two layers of graph attention"])


def _split(source: Path) -> tuple[dict[str, int], str]:
    """Sizes of a split, none where the usual ones fit, and how to say so."""
    usual = NodeSplit()
    try:
        classes = class_sizes(source)
    except RegardError:  # reported by the next reader
        classes = []
    left = sum(classes) - sum(min(size, usual.per_class) for size in classes)
    if classes and left <= usual.valid:
        fitting = NodeSplit.fitting(sum(classes), len(classes))
        if fitting is not None:
            few = f"the {sum(classes):,} with a label are too few for the usual split"
            return fitting.sizes, f"{_told(fitting, fitting.test)}; {few}"
    return {}, _told(usual, min(usual.test, left - usual.valid) if left > usual.valid else usual.test)


def _told(split: NodeSplit, test: int) -> str:
    return f"{split.per_class:,} of each class, {split.valid:,} to validate and {test:,} to test on are drawn by a seed"
