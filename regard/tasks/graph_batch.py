"""A graph as the only example of a task, and batches of its nodes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.task import ExampleIndices, Indices
from regard.data.graphs import Graph
from regard.models.graph.layers import LayerSizes, NodeFeatures


class GraphTensors(NamedTuple):
    """Arguments of a ``GraphNet``.

    Those of one graph are created once, because a network caches the sorted edges by tensor.

    Attributes:
        features: the features of the nodes.
        pairs: (2, edges); with ``sizes``, the edges of all layers, concatenated.
        degree: (edges,).
        sizes: the sizes of the layers, if each layer reads a neighborhood instead of the whole graph.
    """

    features: NodeFeatures | Tensor
    pairs: Tensor
    degree: Tensor
    sizes: tuple[LayerSizes, ...] = ()


def graph_tensors(graph: Graph, device: torch.device | None = None) -> GraphTensors:
    """Return the tensors of a whole graph."""

    def tensor(array: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    entries, values = (graph.entries, graph.values) if graph.file is None else graph.file.entries()
    features = NodeFeatures(tensor(entries), tensor(values), graph.nodes, graph.features)
    return GraphTensors(features, tensor(graph.pairs), tensor(graph.degree))


class GraphCodecs(NamedTuple):
    """The graph of a run, and the wide part of its model, if it has one.

    ``wide``: a fitted ``baselines.nodes.NodeBaseline`` or ``baselines.links.LinkBaseline``. ``temperature``: of the
    validation, see ``answers.calibrated_class``.
    """

    graph: Graph
    wide: Any = None
    temperature: float = 1.0


class NodeBatch(NamedTuple):
    """Nodes with a loss, and the part of the graph that they attend to."""

    inputs: GraphTensors
    nodes: Tensor  # (targets,): indices of the nodes in the outputs
    label: Tensor  # (targets,)
    wide: Tensor | None  # (targets, classes), added to the outputs
    index: Tensor  # type: ignore[assignment]  # (examples,); hides tuple.index
    weight: float


class OneGraph:
    """A graph as the only example of ``core.task.Examples``, visited once per epoch.

    Its nodes are not examples, so it is never divided among shards.

    Args:
        graph: the graph.
        weight: the number of targets.
    """

    def __init__(self, graph: Graph, weight: int) -> None:
        self.graph, self.weight = graph, weight
        self.tensors, self.index = graph_tensors(graph), torch.zeros(1, dtype=torch.int64)

    def __len__(self) -> int:
        return 1

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        return [ExampleIndices(np.zeros(1, np.int64), np.array([0 if epoch is None else epoch + 1]))]

    def token_counts(self) -> npt.NDArray[np.int64]:
        return np.array([self.weight])

    def where(self, index: int) -> str:
        return self.graph.where


class WholeGraph(OneGraph):
    """A graph whose ``chosen`` nodes contribute to the loss; ``wide``: see ``NodeBatch``."""

    def __init__(self, graph: Graph, chosen: npt.NDArray[np.bool_], wide: Tensor | None = None) -> None:
        super().__init__(graph, int(chosen.sum()))
        nodes = np.flatnonzero(chosen)
        labels = torch.from_numpy(graph.labels[nodes])
        self._batch = NodeBatch(self.tensors, torch.from_numpy(nodes), labels, wide, self.index, float(self.weight))

    def collate(self, examples: ExampleIndices) -> NodeBatch:
        return self._batch

    def target_nodes(self, index: Indices | None) -> Indices:
        """Return the nodes of these examples; None for all."""
        return self._batch.nodes.numpy()
