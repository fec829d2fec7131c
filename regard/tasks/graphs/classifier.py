"""A trained model of whole graphs at work: graphs to classes with their probabilities, or to numbers."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.call_checks import require_list
from regard.core.observation import WHOLE, Alternative, AttentionMap, Axis, Observation, Prediction, Surface
from regard.core.task import Indices, MetricSums, never
from regard.data.graph_lines import GraphLine, graph_of, parse_graph
from regard.data.graphs import Graph
from regard.errors import DataError
from regard.models.graph.layers import GraphAttention, NodeFeatures
from regard.models.graph.pooling import PooledGraphNet
from regard.tasks.graphs.codec import GraphCodec
from regard.tasks.graphs.config import GraphsConfig
from regard.tasks.graphs.examples import graph_inputs, noise_key, runs_of

__all__ = ["GraphClass", "GraphClassifier", "GraphNumber"]

TOGETHER = 4096  # nodes that are read at once
SHOWN = 64  # nodes; of a graph that has more, those with the greatest weights


class GraphClass(NamedTuple):
    """The likeliest class of a graph, its probability, those of all classes, and the weight of each node."""

    label: str
    probability: float
    probabilities: dict[str, float]
    weights: list[float]  # only pooling by attention, or by maxima, says more than how many nodes there are


class GraphNumber(NamedTuple):
    """A number in the unit of the labels, and the weight of each node."""

    value: float
    weights: list[float]


class GraphClassifier:
    """A network with its labels: ``regard.load("runs/rings")([{"edges": [[0, 1], [1, 2]]}])[0].label``."""

    reads_json = True

    def __init__(self, net: PooledGraphNet, codec: GraphCodec, config: GraphsConfig) -> None:
        self.net, self.codec, self.config = net.eval(), codec, config

    def __call__(self, inputs: Sequence[GraphLine | Mapping[str, Any]]) -> list[Any]:
        """A ``GraphClass`` or ``GraphNumber`` for each graph: an object as a line of a file has it.

        DataError for what is no graph, or none of the model's kind.
        """
        require_list(inputs)
        lines = [self._line(each) for each in inputs]
        graphs = [self._graph(line) for line in lines]
        sizes = np.array([graph.nodes for graph in graphs], np.int64)
        parts = runs_of(np.arange(len(graphs)), sizes, TOGETHER) if graphs else []
        return [found for part in parts for found in self._told([graphs[at] for at in part.tolist()])]

    def _line(self, given: GraphLine | Mapping[str, Any]) -> GraphLine:
        return given if isinstance(given, GraphLine) else graph_of(given, key=self.codec.data.label)

    def _graph(self, line: GraphLine) -> Graph:
        return self.codec.noisy(self.codec.graph(line), noise_key(line.digest()), 0)

    @torch.no_grad()
    def _told(self, graphs: Sequence[Graph]) -> list[Any]:
        features, pairs, degree, counts = graph_inputs(graphs, self._device)
        states = self.net.node_states(features, pairs, degree)
        weights = self.net.pooling.weights(states, counts).cpu().split(counts.tolist())
        outputs = self.net.answer(states, counts).double().cpu()
        for graph, finite in zip(graphs, outputs.isfinite().all(-1).tolist(), strict=True):
            if not finite:
                why = "its features are beyond what the network can compute with"
                raise DataError("the answer of the graph is no finite number", where=graph.where or None, why=why)
        return [self._outcome(row, each.tolist()) for row, each in zip(outputs, weights, strict=True)]

    def _outcome(self, outputs: Tensor, weights: list[float]) -> GraphClass | GraphNumber:
        if self.codec.number is not None:
            return GraphNumber(self.codec.number.mean + self.codec.number.deviation * float(outputs[0]), weights)
        named = dict(zip(self.codec.labels.names, outputs.softmax(-1).tolist(), strict=True))
        label = max(named, key=named.__getitem__)
        return GraphClass(label, named[label], named, weights)

    @property
    def _device(self) -> torch.device:
        return next(self.net.parameters()).device

    def read(self, line: str) -> GraphLine:
        """A graph as a line of a file has it; a label is read over."""
        found, _ = parse_graph(line, key=self.codec.data.label)
        self.codec.require(found)
        return found

    def cost(self, given: GraphLine) -> int:
        """Return how many numbers one layer holds at once for a graph (``core.predictor_interface.input_cost``)."""
        net = self.config.model
        pairs = given.nodes**2 if net.sees == "all" else given.nodes + 2 * len(given.edges)
        return max(pairs * max(net.heads, net.output_heads), given.nodes * net.hidden)

    def write(self, output: GraphClass | GraphNumber, *, json: bool) -> str:
        """The class or the number, or an object with the probabilities of all classes."""
        if isinstance(output, GraphNumber):
            return jsonlib.dumps({"value": round(output.value, 6)}) if json else f"{output.value:.6g}"
        if not json:
            return output.label
        rounded = {name: round(p, 6) for name, p in output.probabilities.items()}
        return jsonlib.dumps({"label": output.label, "probabilities": rounded}, ensure_ascii=False)

    def measure(
        self, examples: Any, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = never
    ) -> MetricSums:
        """Nothing: all is counted by the objective."""
        return {}

    @torch.no_grad()
    def inspect(self, given: GraphLine | Mapping[str, Any]) -> Observation:
        """Attention along the edges in each layer, what each node weighed in the answer, and the classes."""
        line = self._line(given)
        graph = self._graph(line)
        features, pairs, degree, counts = graph_inputs([graph], self._device)
        states = self.net.node_states(features, pairs, degree)
        weights = self.net.pooling.weights(states, counts).float().cpu()
        shown = weights.topk(min(SHOWN, graph.nodes)).indices.sort().values
        axis = Axis("node", tuple(_name(line, node) for node in shown.tolist()))
        place = {node: number for number, node in enumerate(shown.tolist())}
        edges = [(place[one], place[other]) for one, other in line.edges.tolist() if one in place and other in place]
        maps = [
            AttentionMap("encoder", number, "edges", each, axis, Axis("neighbor", axis.labels))
            for number, each in self._edges(graph, shown).items()
        ]
        pooling = AttentionMap.at("pooling", weights[None, None, shown], Axis("answer", ("answer",)), axis)
        outputs = self.net.answer(states, counts)[0].double().cpu()
        surface = Surface("graph", axis.labels, edges=tuple(edges))
        facts = {"nodes": graph.nodes, "edges": len(line.edges)}
        return Observation((surface,), (self._prediction(outputs),), (*maps, pooling), facts=facts)

    def _prediction(self, outputs: Tensor) -> Prediction:
        """Return the classes of a graph, or its number."""
        if self.codec.number is not None:
            return Prediction(WHOLE, "number", self.write(self._outcome(outputs, []), json=False))
        value, place = outputs.log_softmax(-1).sort(descending=True)
        names = [self.codec.labels.names[number] for number in place.tolist()]
        return Prediction.best(WHOLE, "label", [*map(Alternative, names, value.tolist())])

    def _edges(self, graph: Graph, shown: Tensor) -> dict[int, Tensor]:
        """Weights (heads, shown, shown) of each layer that attends, 0 where there is no edge."""
        features, pairs, degree, _ = graph_inputs([graph], self._device)
        states: list[NodeFeatures | Tensor] = [features, *self.net.net.states(features, pairs, degree)]
        found: dict[int, Tensor] = {}
        for number, layer in enumerate(self.net.net.layers):
            if not isinstance(layer, GraphAttention):
                continue
            table = torch.zeros(layer.heads, len(shown), graph.nodes)
            for row, node in enumerate(shown.tolist()):
                others = torch.from_numpy(graph.neighbours(node)).to(self._device)
                table[:, row, others.cpu()] = layer.weights(states[number], node, others).float().cpu()
            found[number] = table[:, :, shown]
        return found


def _name(line: GraphLine, node: int) -> str:
    """The number of a node, and its label."""
    return f"{node} {line.kinds[node]}" if line.kinds else str(node)
