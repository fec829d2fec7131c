"""The config of a classifier of nodes. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from regard.runs.config import Proposal
from regard.tasks.graph_run_config import GraphDataConfig, GraphRunConfig

__all__ = ["NodesConfig"]


class NodesConfig(GraphRunConfig):
    """Everything that decides the run of a classifier of nodes. Frozen; saved with every value."""

    metric_names: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "calibration_error")

    data: GraphDataConfig

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"features", "classes"}:
            raise ValueError("it should have the number of features and that of classes")

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
        """For a .npz with edges and classes, or a table of nodes with labels and one of edges."""
        from regard.tasks.nodes.automatic_config import choose

        return choose(files, valid, given)
