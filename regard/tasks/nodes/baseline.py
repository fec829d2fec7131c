"""The baseline of a run that classifies nodes, measured like its network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.answers.calibrated_class import CalibratedClass
from regard.answers.losses import class_loss
from regard.baselines.nodes import NodeBaseline
from regard.core.baseline import FOLDER, open_saved_baseline, require_wide, save_baseline
from regard.core.task import Data, Indices, MetricSums, RunFiles
from regard.data.graphs import UNLABELED, Graph
from regard.tasks.graph_batch import GraphCodecs
from regard.tasks.graph_outcomes import GraphOutcomes
from regard.tasks.graph_parts import is_evaluation, nodes_of_part


class NodesBaseline:
    """``core.task.TaskBaseline`` of a ``NodeBaseline``."""

    def __init__(self, model: NodeBaseline) -> None:
        self.model = model

    @property
    def description(self) -> str:
        return self.model.description

    def sums(self, examples: Any, indices: Indices, names: Sequence[str]) -> MetricSums:
        """See ``TaskBaseline``."""
        nodes = examples.target_nodes(indices)
        targets = torch.from_numpy(examples.graph.labels[nodes])
        return class_loss(self._outputs(examples.graph, nodes), targets, smoothing=0.0, evaluating=True).sums

    def outcomes(self, examples: Any) -> GraphOutcomes:
        """See ``core.task.Task.baseline_outcomes``."""
        graph, nodes = examples.graph, examples.target_nodes(None)
        targets = torch.from_numpy(graph.labels[nodes])
        answer, outputs = CalibratedClass.of(graph.classes), self._outputs(graph, nodes)
        return GraphOutcomes(answer, graph.where, graph, nodes[:, None], outputs, targets)

    def _outputs(self, graph: Graph, nodes: Indices) -> Tensor:
        """Return (nodes, classes) logits; the known labels are those of the training nodes that are not measured."""
        return torch.from_numpy(self.model.outputs(graph, np.setdiff1d(training_nodes(graph), nodes))[nodes])

    def save(self, run: RunFiles, figures: Mapping[str, float]) -> None:
        save_baseline(run.path / FOLDER, self.model, figures)


def training_nodes(graph: Graph) -> Indices:
    """Return the labeled nodes of the training part; none for a graph without parts."""
    chosen = graph.parts.get("train", np.zeros(graph.nodes, np.bool_))
    return np.flatnonzero(chosen & (graph.labels != UNLABELED))


def fit_nodes_baseline(run: RunFiles, data: Data) -> NodesBaseline:
    """Fit the baseline on the training nodes, unless it is the wide part of the model, which is fitted already."""
    examples: Any = data.train
    return NodesBaseline(data.codecs.wide or fitted(examples.graph, examples.target_nodes(None)))


def open_nodes_baseline(run: RunFiles, codecs: GraphCodecs) -> NodesBaseline | None:
    """Open the saved baseline of a run; None if the run has no baseline. Raises ModelError if it is damaged."""
    model = codecs.wide or opened(run, codecs.graph)
    return None if model is None else NodesBaseline(model)


def fitted(graph: Graph, nodes: Indices) -> NodeBaseline:
    """Fit the baseline on the labels of these nodes; it is opened as saved, because a resumed run opens it."""
    model = NodeBaseline()
    model.learn(graph, nodes)
    return model.open(model.save())


def opened(run: RunFiles, graph: Graph) -> NodeBaseline | None:
    """Open the saved baseline of a run; None if it does not exist. Raises ModelError if it is damaged."""
    return open_saved_baseline(run.path / FOLDER, NodeBaseline(), lambda model: model.require(graph))


def wide_part(run: RunFiles, training: Graph | None, graph: Graph) -> NodeBaseline:
    """Return the wide part of the model of a run: the saved one, or one that is fitted on ``training`` and saved.

    Raises:
        ModelError: if the saved one is missing or damaged.
    """
    trains = training is not None and not is_evaluation(run)
    if trains and training is not None and (run.makes_codecs or not (run.path / FOLDER).exists()):
        model = fitted(training, np.flatnonzero(nodes_of_part(training, "train")))
        save_baseline(run.path / FOLDER, model, {})
        return model
    return require_wide(opened(run, graph), run)


def wide_outputs(model: NodeBaseline, graph: Graph, nodes: Indices, *, held_out: bool) -> Tensor:
    """Return (nodes, classes) of the wide part, which does not know the labels of these nodes.

    ``held_out``: these are the nodes that it was fitted on; each output is that of a model fitted without the node.
    """
    if held_out:
        return torch.from_numpy(model.held_out_outputs(graph, nodes)).float()
    return torch.from_numpy(model.outputs(graph, np.setdiff1d(training_nodes(graph), nodes))[nodes]).float()
