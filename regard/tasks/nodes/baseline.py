"""The baseline of a run that classifies nodes, measured like its network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from regard.answers.losses import class_loss
from regard.baselines.nodes import NodeBaseline
from regard.core.baseline import FOLDER, open_saved_baseline, save_baseline
from regard.core.task import Data, Indices, MetricSums, RunFiles
from regard.data.graphs import UNLABELED, Graph


class NodesBaseline:
    """``core.task.TaskBaseline`` of a ``NodeBaseline``."""

    def __init__(self, model: NodeBaseline) -> None:
        self.model = model

    @property
    def description(self) -> str:
        return self.model.description

    def sums(self, examples: Any, indices: Indices, names: Sequence[str]) -> MetricSums:
        """See ``TaskBaseline``. The known labels are those of the training nodes that are not measured."""
        graph, nodes = examples.graph, examples.target_nodes(indices)
        known = np.setdiff1d(training_nodes(graph), nodes)
        outputs = torch.from_numpy(self.model.outputs(graph, known)[nodes])
        return class_loss(outputs, torch.from_numpy(graph.labels[nodes]), smoothing=0.0, evaluating=False).sums

    def save(self, run: RunFiles, figures: Mapping[str, float]) -> None:
        save_baseline(run.path / FOLDER, self.model, figures)


def training_nodes(graph: Graph) -> Indices:
    """Return the labeled nodes of the training part; none for a graph without parts."""
    chosen = graph.parts.get("train", np.zeros(graph.nodes, np.bool_))
    return np.flatnonzero(chosen & (graph.labels != UNLABELED))


def fit_nodes_baseline(run: RunFiles, data: Data) -> NodesBaseline:
    """Fit the baseline on the training nodes."""
    examples: Any = data.train
    model = NodeBaseline()
    model.learn(examples.graph, examples.target_nodes(None))
    return NodesBaseline(model)


def open_nodes_baseline(run: RunFiles, graph: Graph) -> NodesBaseline | None:
    """Open the saved baseline of a run; None if the run has no baseline. Raises ModelError if it is damaged."""
    model = open_saved_baseline(run.path / FOLDER, NodeBaseline(), lambda model: model.require(graph))
    return None if model is None else NodesBaseline(model)
