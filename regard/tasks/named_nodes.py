"""Nodes of a trained graph: their numbers by name, and what layers of attention weighed around one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.observation import AttentionMap, Axis, Surface
from regard.core.untrusted_files import shortened
from regard.core.wording import did_you_mean
from regard.data.graphs import Graph
from regard.errors import DataError
from regard.models.graph.build import GraphNet
from regard.models.graph.layers import GraphAttention

__all__ = ["neighborhood", "node_number", "observed_edges"]

SHOWN = 64  # neighbours; of a node that sees more, those with the greatest weights
SEARCHED = 10_000  # names that are compared with one that is unknown


class _Inputs(Protocol):
    """Inputs of a network in its order, among them these."""

    @property
    def features(self) -> Any: ...
    @property
    def pairs(self) -> Tensor: ...
    def __iter__(self) -> Iterator[Any]: ...


def node_number(graph: Graph, name: str) -> int:
    """The number of the node of that name. DataError where there is none."""
    if name not in graph.places:
        known = list(graph.places)[:SEARCHED]
        why = f"it has {graph.nodes:,}: {shortened(', '.join(known[:5]))} …"
        raise DataError(f"the graph has no node {shortened(name)!r}", why=why, help=did_you_mean(name, known))
    return graph.places[name]


def observed_edges(
    net: GraphNet,
    tensors: _Inputs,
    graph: Graph,
    node: int,
    label: Callable[[int], str],
    places: npt.NDArray[np.int64] | None = None,
    *,
    part: str = "edges",
) -> tuple[tuple[AttentionMap, ...], list[int]]:
    """Return the weights of a node's edges by layer, and the neighbors that are shown, the node perhaps among them.

    Args:
        net: the network.
        tensors: its inputs.
        graph: the graph.
        node: whose edges.
        label: the label of a node.
        places: of all that the node sees among the nodes of ``tensors``; None where that is the whole graph.
        part: the name of the attention in its layer.
    """
    others = graph.neighbours(node)
    places = others if places is None else places
    own, seen = int(places[others == node][0]), torch.from_numpy(places).to(tensors.pairs.device)
    states = [tensors.features, *net.states(*tensors)]
    layers = [(number, layer) for number, layer in enumerate(net.layers) if isinstance(layer, GraphAttention)]
    every = {number: layer.weights(states[number], own, seen).cpu() for number, layer in layers}
    if len(others) > SHOWN and every:
        kept = torch.stack([weights.mean(0) for weights in every.values()]).mean(0).topk(SHOWN).indices.sort().values
    else:
        kept = torch.arange(min(len(others), SHOWN))
    shown = others[kept.numpy()].tolist()
    axes = Axis("node", (label(node),)), Axis("neighbor", tuple(map(label, shown)))
    maps = (AttentionMap("encoder", number, part, weights[:, None, kept], *axes) for number, weights in every.items())
    return tuple(maps), shown


def neighborhood(graph: Graph, centers: Sequence[int], shown: Iterable[int], label: Callable[[int], str]) -> Surface:
    """Return the drawing of some nodes with the neighbors that are shown, the centers first."""
    nodes = list(dict.fromkeys([*centers, *shown]))
    place = {node: number for number, node in enumerate(nodes)}
    edges = {
        (min(number, place[other]), max(number, place[other]))
        for node, number in place.items()
        for other in graph.neighbours(node).tolist()
        if other in place and other != node
    }
    center = 0 if len(centers) == 1 else None
    return Surface("graph", tuple(map(label, nodes)), edges=tuple(sorted(edges)), center=center)
