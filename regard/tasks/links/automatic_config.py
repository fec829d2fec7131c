"""A config of links for the files of a graph that nobody wrote a recipe for, each choice with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.config.settings import TRAINING_ENDS
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.graph_found import found_graph

__all__ = ["choose", "confidence"]


def confidence(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``: for the files of one graph without labels."""
    graph = None if valid else found_graph(files)
    return Confidence.NONE if graph is None or graph.labelled else Confidence.FORM


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """A model of links for the files of one graph without labels; None for any other files."""
    graph = None if valid else found_graph(files)  # a graph holds its own validation edges
    if graph is None or graph.labelled:
        return None
    settings: dict[str, Any] = {
        "optimizer": "adam", "learning_rate": 1e-2, "schedule": "constant", "warmup": 0, "precision": "float32",
        "best_by": "auc", "validate_every": 1, "save_every": 100_000, "keep": 1,
    }  # fmt: skip
    if not set(TRAINING_ENDS) & given.keys():
        settings |= {"epochs": 300, "early_stopping": 50}
    config = {
        "task": {"kind": "links"},
        "data": {"train": [graph.corpus], "valid": [graph.corpus]},
        "model": {"kind": "gcn", "width": 32, "dropout": 0.0},
        "train": settings,
    }
    reasons = [
        f"{graph.told}: links between nodes (task.kind = links)",
        *graph.columns,
        "a twentieth of the edges is held out to validate on, a tenth for regard evaluate",
        "two layers of graph convolution, and products of what they give",
    ]
    return Proposal(config, reasons)
