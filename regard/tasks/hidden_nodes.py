"""Outputs of a network over the nodes of a graph when the features of one node are hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from regard.baselines.graph_smoothing import is_large
from regard.core.tensors import to_device
from regard.data.graphs import Graph
from regard.models.graph.build import GraphNet
from regard.models.graph.layers import NodeFeatures
from regard.tasks.graph_batch import GraphTensors, graph_tensors
from regard.tasks.nodes.sampling import SomeNodes

HIDING = "all features of the node are 0, and its edges stay"
AT_ONCE = 1 << 16  # maximum number of nodes of the copies of a neighborhood that are computed together


class HiddenNodes:
    """A network over nodes, and the subgraph that determines the outputs of ``nodes``.

    Args:
        net: the network.
        graph: its graph.
        nodes: the distinct nodes whose outputs are computed.
        is_local: whether each layer reads only the neighbors of a node.
    """

    def __init__(self, net: GraphNet, graph: Graph, nodes: Sequence[int], *, is_local: bool) -> None:
        self.net, self.device = net, next(net.parameters()).device
        if is_local:
            some = SomeNodes(graph)
            read = some.read(np.array(nodes), [None] * len(net.layers))
            # All layers read the edges of the first one. The nodes at the rim then have wrong outputs, which no layer
            # passes on to ``nodes``.
            pairs, degree = torch.from_numpy(read.hops[0].pairs), torch.from_numpy(read.hops[0].degree)
            self._inputs = GraphTensors(some.features(read.nodes), pairs, degree)
            self._at_once, numbers = max(AT_ONCE // len(read.nodes), 1), read.nodes.tolist()
        else:  # copies in one batch would read each other
            self._inputs, self._at_once, numbers = graph_tensors(graph), 1, range(graph.nodes)
        self._place = {node: place for place, node in enumerate(numbers)}
        self._targets = torch.tensor([self._place[node] for node in nodes])

    @torch.no_grad()
    def outputs(self, hidden: Sequence[int | None]) -> Iterator[Tensor]:
        """Yield the outputs (nodes, width) without the features of each of these nodes; None: with all features."""
        remaining = iter(hidden)
        while part := [*islice(remaining, self._at_once)]:
            numbers = [None if node is None else self._place.get(node) for node in part]
            outputs: Tensor = self.net(*to_device(_copies(self._inputs, numbers), self.device))
            yield from outputs.cpu().unflatten(0, (len(part), -1))[:, self._targets]


def _copies(inputs: GraphTensors, hidden: Sequence[int | None]) -> GraphTensors:
    """Return one graph with a copy for each entry of ``hidden``; the features of that node are 0 in its copy."""
    features, times = inputs.features, len(hidden)
    nodes = features.nodes if isinstance(features, NodeFeatures) else len(features)
    start = torch.arange(times).repeat_interleave(inputs.pairs.shape[1]) * nodes
    pairs, degree = inputs.pairs.repeat(1, times) + start, inputs.degree.repeat(times)
    zeroed = torch.tensor([place * nodes + node for place, node in enumerate(hidden) if node is not None])
    if isinstance(features, Tensor):
        table = features.repeat(times, 1)
        table[zeroed.long()] = 0
        return GraphTensors(table, pairs, degree)
    entries = features.pairs.repeat(1, times)
    entries[0] += torch.arange(times).repeat_interleave(features.pairs.shape[1]) * nodes
    values = features.values.repeat(times).masked_fill(torch.isin(entries[0], zeroed), 0)
    return GraphTensors(NodeFeatures(entries, values, nodes * times, features.width), pairs, degree)


def without_features(graph: Graph, node: int) -> Graph:
    """Return the graph without the features of a node, for a baseline, which omits the features of a large graph."""
    if is_large(graph):
        return graph
    entries, values = (graph.entries, graph.values) if graph.file is None else graph.file.entries()
    visible = entries[0] != node
    return replace(graph, entries=entries[:, visible], values=values[visible], file=None)
