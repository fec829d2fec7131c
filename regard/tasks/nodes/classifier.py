"""A trained classifier of nodes at work: names of nodes to classes with their probabilities."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.call_checks import require_list
from regard.core.observation import Alternative, Observation, ObservedStep
from regard.core.task import Indices, MetricSums, never
from regard.core.tensors import to_device
from regard.data.graphs import UNLABELLED, Graph
from regard.models.graph.build import GraphNet
from regard.tasks.graph_batch import GraphTensors, graph_tensors
from regard.tasks.named_nodes import node_number, observed_edges
from regard.tasks.nodes.config import NodesConfig
from regard.tasks.nodes.sampling import SomeNodes

__all__ = ["NodeClass", "NodeClassifier"]


class NodeClass(NamedTuple):
    """The likeliest class of a node, its probability, and those of all classes."""

    node: str
    label: str
    probability: float
    probabilities: dict[str, float]


class NodeClassifier:
    """A network with the graph that it was trained on: ``regard.load("runs/cora")(["31336"])[0].label``.

    With ``data.batch_nodes`` so many nodes at a time are read, with all that they look at; without, the whole graph.
    """

    def __init__(self, net: GraphNet, graph: Graph, config: NodesConfig) -> None:
        self.net, self.graph, self.config = net.eval(), graph, config
        self._device = next(net.parameters()).device
        self._whole = graph_tensors(graph, self._device) if config.data.batch_nodes is None else None
        self._some = SomeNodes(graph) if self._whole is None else None

    @torch.no_grad()
    def __call__(self, inputs: Sequence[str]) -> list[NodeClass]:
        """One outcome for each name of a node. DataError for a name that the graph has not."""
        require_list(inputs)
        nodes = [node_number(self.graph, name) for name in inputs]
        found = self._log_probabilities(nodes).exp()
        return [self._told(node, row) for node, row in zip(nodes, found.tolist(), strict=True)]

    def _log_probabilities(self, nodes: Sequence[int]) -> Tensor:
        """(nodes, classes), in the order of ``nodes``."""
        if self._whole is not None:
            logits: Tensor = self.net(*self._whole)[list(nodes)]
        else:
            different, place = np.unique(np.array(nodes, np.int64), return_inverse=True)
            parts = np.split(different, range(self._batch, len(different), self._batch))
            logits = torch.cat([self.net(*self._inputs(part)) for part in parts])[torch.from_numpy(place)]
        return logits.double().log_softmax(-1).cpu()

    @torch.no_grad()
    def hidden(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Outputs (nodes, width) of the last hidden layer, or of the only layer; ``nodes`` are all different."""
        place = -2 if len(self.net.layers) > 1 else -1
        if self._whole is not None:
            return self.net.states(*self._whole)[place][torch.from_numpy(nodes)].float().cpu().numpy()
        parts = np.split(nodes, range(self._batch, len(nodes), self._batch))
        found = [self.net.states(*self._inputs(part))[place][: len(part)] for part in parts]
        return torch.cat(found).float().cpu().numpy()

    @property
    def _batch(self) -> int:
        return self.config.data.batch_nodes or self.graph.nodes

    def _inputs(self, nodes: npt.NDArray[np.int64]) -> GraphTensors:
        """Tensors that the network reads for these nodes, all different: their whole neighbourhoods."""
        assert self._some is not None
        return to_device(self._some.inputs(nodes, [None] * len(self.net.layers)), self._device)

    def _told(self, node: int, row: list[float]) -> NodeClass:
        named = dict(zip(self.graph.classes, row, strict=True))
        label = max(named, key=named.__getitem__)
        return NodeClass(self.graph.name(node), label, named[label], named)

    def read(self, line: str) -> str:
        """The name of a node, or its number where nodes have none."""
        if not line.strip():
            raise ValueError("a line names a node")
        node_number(self.graph, line.strip())
        return line.strip()

    def cost(self, name: str) -> int:
        """Return 1: a prediction reads the graph of the model, whatever node is named."""
        return 1

    def write(self, output: NodeClass, *, json: bool) -> str:
        """The class, or an object with the probabilities of all."""
        if not json:
            return output.label
        rounded = {name: round(p, 6) for name, p in output.probabilities.items()}
        return jsonlib.dumps({"node": output.node, "label": output.label, "probabilities": rounded}, ensure_ascii=False)

    def measure(
        self, examples: Any, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = never
    ) -> MetricSums:
        """Nothing: all is counted by the objective."""
        return {}

    @torch.no_grad()
    def inspect(self, name: str) -> Observation:
        """Attention of a node to its neighbours in each layer, and the likeliest classes of both."""
        node = node_number(self.graph, name)
        others = self.graph.neighbours(node)
        tensors, places = (self._whole, others) if self._whole else (self._inputs(others), np.arange(len(others)))
        attention, shown = observed_edges(self.net, tensors, self.graph, node, self._label, places)
        told = [node, *(one for one in shown if one != node)]
        steps = tuple(self._step(each, log_p) for each, log_p in zip(told, self._log_probabilities(told), strict=True))
        return Observation(self.graph.name(node), attention, steps)

    def _label(self, node: int) -> str:
        number = int(self.graph.labels[node])
        told = "" if number == UNLABELLED else f"/{self.graph.classes[number]}"
        return f"{self.graph.name(node)}{told}"

    def _step(self, node: int, log_p: Tensor) -> ObservedStep:
        value, number = log_p.topk(min(10, len(log_p)))
        best = tuple(
            Alternative(self.graph.classes[each], one)
            for each, one in zip(number.tolist(), value.tolist(), strict=True)
        )
        return ObservedStep(self._label(node), best[0].log_probability, best)
