"""The automatic choice of a model of links for the files of a graph, with the reason of each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.runs.run_config import Confidence, Proposal
from regard.tasks.graph_found import graph_training, one_graph


def confidence(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``: for the files of one graph without labels."""
    return Confidence.FORM if one_graph(files, valid, labeled=False) else Confidence.NONE


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """Choose a model of links for the files of one graph without labels; else None."""
    graph = one_graph(files, valid, labeled=False)
    if graph is None:
        return None
    config = {
        "task": {"kind": "links"},
        "data": {"train": [graph.corpus], "valid": [graph.corpus]},
        "model": {"kind": "gcn", "width": 32, "dropout": 0.0},
        "train": graph_training(given, epochs=300, early_stopping=50, learning_rate=1e-2, best_by="auc"),
    }
    reasons = [
        f"{graph.description}: links between nodes (task.kind = links)",
        *graph.columns,
        "a twentieth of the edges is held out to validate on, a tenth for regard evaluate",
        "two layers of graph convolution, and products of what they give",
    ]
    return Proposal(config, reasons)
