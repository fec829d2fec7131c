"""The predictor of whole graphs, with the weights of nodes and the attention along the edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.core.observation import AttentionMap, Axis, Observation, Surface
from regard.data.graph_lines import GraphLine
from regard.data.graphs import Graph
from regard.tasks.net_outputs import run_network
from regard.tasks.supervised_predictor import SupervisedPredictor

MAX_SHOWN = 64  # maximum number of nodes that are shown; in larger graphs, those with the greatest weights


class GraphPredictor(SupervisedPredictor):
    """A trained graph model: ``regard.load("runs/rings")([{"edges": [[0, 1], [1, 2]]}])[0].label``."""

    def __call__(self, inputs: Sequence[GraphLine | Mapping[str, Any]], **settings: Any) -> list[Any]:
        """Return a prediction for each graph, an object as in a line of a file; ``weights`` are those of the nodes."""
        return [
            output._replace(weights=[weight for _, weight in output.weights])
            for output in super().__call__(inputs, **settings)
        ]

    @torch.no_grad()
    def inspect(self, graph: GraphLine | Mapping[str, Any]) -> Observation:
        """Return the attention along the edges in each layer, the pooling weights of the nodes, and the prediction."""
        values = self._accept(graph)
        (row,) = self._encode([values]).rows
        inputs = self._padded([row])
        ((field, encoded, batch),) = zip(self.codec.fields.values(), row, inputs.values(), strict=True)
        outputs = run_network(self.net, inputs)
        (weights,) = (table.float().cpu() for table in outputs.weights.values())
        shown, labels = weights.topk(min(MAX_SHOWN, len(encoded))).indices.sort().values, field.labels(encoded)
        axis = Axis("node", tuple(labels[node] for node in shown.tolist()))
        maps = [
            AttentionMap("encoder", layer, "edges", table, axis, Axis("neighbor", axis.labels))
            for layer, table in _edge_weights(self.net, batch, encoded.graph, shown).items()
        ]
        pooling = AttentionMap.at("pooling", weights[None, None, shown], Axis("answer", ("answer",)), axis)
        place, edges = {node: number for number, node in enumerate(shown.tolist())}, values[0].edges.tolist()
        drawn = tuple((place[one], place[other]) for one, other in edges if one in place and other in place)
        return Observation(
            (Surface("graph", axis.labels, edges=drawn),),
            self._predictions(outputs.logits.double().cpu()),
            (*maps, pooling),
            facts={"nodes": len(encoded), "edges": len(edges)},
        )


def _edge_weights(net: Any, batch: Any, graph: Graph, shown: Tensor) -> dict[int, Tensor]:
    """Return the attention weights (heads, shown, shown) of each layer, 0 for a pair without an edge.

    They are computed row by row, because the weights of all nodes may not fit into memory.
    """
    weights: dict[int, Tensor] = {}
    for number, layer, inputs in net.net.attention(*net.arguments(batch)):
        table = torch.zeros(layer.heads, len(shown), graph.nodes)
        for row, node in enumerate(shown.tolist()):
            neighbors = torch.from_numpy(graph.neighbors(node))
            table[:, row, neighbors] = layer.weights(inputs, node, neighbors.to(batch.values.device)).float().cpu()
        weights[number] = table[:, :, shown]
    return weights
