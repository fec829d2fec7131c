"""Automatic choice of a link model's config for the files of a graph, with the reason of each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.runs.run_config import Confidence, Proposal
from regard.tasks.detect_files import wide_reasons
from regard.tasks.detect_graph_files import DetectedGraph, graph_training, one_graph


def confidence(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``. Reads the files of one graph without labels."""
    return Confidence.FORM if _graph(files, valid, overrides) else Confidence.NONE


def choose(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
    """Return the config of a link model for the files of one graph; of one with labels only for ``--task links``."""
    graph = _graph(files, valid, overrides)
    if graph is None:
        return None
    config = {
        "task": {"kind": "links"},
        "data": {"train": [graph.corpus], "valid": [graph.corpus]},
        "model": {"kind": "gcn", "width": 32, "dropout": 0.0, "wide": overrides.get("baseline", True)},
        "train": graph_training(overrides, epochs=300, early_stopping=50, learning_rate=1e-2, best_by="auc"),
    }
    reasons = [
        f"{graph.description} → links",
        *graph.columns,
        "held out: 5 % of the edges for validation, 10 % for regard evaluate",
        "network: two layers of graph convolution, dot products of their outputs",
        *wide_reasons(overrides),
    ]
    return Proposal(config, reasons)


def _graph(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> DetectedGraph | None:
    return one_graph(files, valid, labeled=None if overrides.get("task") == "links" else False)
