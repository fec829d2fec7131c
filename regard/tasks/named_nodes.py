"""The base of predictors for the nodes of one graph: nodes by name, and the attention of a node to its neighbors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from regard.answers.calibrated_class import CalibratedClass
from regard.attention.weight_terms import AttentionSource
from regard.core.observation import AttentionMap, Axis, Surface, with_attributes
from regard.core.predictor import Output, Predictor, input_number
from regard.core.task import Indices, MetricSums, not_interrupted
from regard.core.untrusted_files import shortened
from regard.core.wording import did_you_mean, pluralize
from regard.data.graphs import UNLABELED
from regard.errors import DataError
from regard.models.graph.build import GraphNet
from regard.tasks.graph_batch import GraphCodecs, GraphTensors
from regard.tasks.graph_outcomes import GraphOutcomes

MAX_SHOWN = 64  # maximum number of neighbors that are shown; of more, those with the greatest weights
SEARCHED = 10_000  # names that are compared with an unknown name


class NodePredictor(Predictor[Output]):
    """A network and the graph it was trained on, which is saved in the run."""

    answer: CalibratedClass  # the classes of nodes, or of pairs of nodes

    def __init__(self, net: Any, codecs: GraphCodecs, config: Any, engine: Any = None) -> None:
        self.net, self.graph, self.wide, self.config = net.eval(), codecs.graph, codecs.wide, config
        self.device = next(net.parameters()).device

    @property
    def network(self) -> nn.Module:
        """See ``core.observation.Traced``."""
        net: nn.Module = self.net
        return net

    def with_network(self, network: nn.Module) -> Self:
        """See ``core.observation.Traced``."""
        return with_attributes(self, net=network)

    def numbered(self, names: Sequence[str]) -> list[int]:
        """Return the number of each node. Raises DataError, with the number of the input, for an unknown name."""
        numbers = []
        for place, name in enumerate(names, start=1):
            with input_number(place):
                numbers.append(self.node(name))
        return numbers

    def node(self, name: str) -> int:
        """Return the number of the node with this name; raise DataError if it does not exist."""
        if not isinstance(name, str):
            raise DataError(f"expected the name of a node, found {type(name).__name__}", help="a text")
        if name not in self.graph.node_numbers:
            known = list(self.graph.node_numbers)[:SEARCHED]
            why = f"it has {pluralize(self.graph.nodes, 'node')}: {shortened(', '.join(known[:5]))} …"
            raise DataError(f"the graph has no node {shortened(name)!r}", why=why, help=did_you_mean(name, known))
        return self.graph.node_numbers[name]

    def measure(
        self, examples: Any, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = not_interrupted
    ) -> MetricSums:
        """See ``core.predictor.Predictor``."""
        if not len(indices) or not {*names} & {*self.answer.measured}:
            return {}
        outcomes = self.outcomes(examples, indices)
        return self.answer.measure(outcomes.outputs, outcomes.targets)

    @abstractmethod
    def outcomes(self, examples: Any, indices: Indices | None = None) -> GraphOutcomes:
        """Return the targets and outputs of an evaluation; ``indices``: of these examples, None for all."""

    def observed_edges(
        self, net: GraphNet, tensors: GraphTensors, node: int, label: Callable[[int], str],
        positions: npt.NDArray[np.int64] | None = None, part: str = "edges",
    ) -> tuple[tuple[AttentionMap, ...], list[int]]:  # fmt: skip
        """Return the attention weights of the edges of a node by layer, and the displayed neighbors.

        The node itself may be one of the neighbors.

        Args:
            net: the network over nodes.
            tensors: the tensors of the whole graph, or of a subgraph with all neighbors of the node.
            node: the number of the node.
            label: returns the text of a node.
            positions: the indices of the neighbors in the subgraph; None for the whole graph.
            part: the name of the attention in its layer.
        """
        neighbors = self.graph.neighbors(node)
        positions = neighbors if positions is None else positions
        own, indices = int(np.flatnonzero(neighbors == node)[0]), torch.from_numpy(positions).to(self.device)
        pairs = torch.stack([torch.full_like(indices, own), torch.arange(len(indices), device=self.device)])
        calls = {number: layer.look(inputs, indices, pairs) for number, layer, inputs in net.attention(*tensors)}
        layers = {number: call.weights[0, :, own].cpu() for number, call in calls.items()}
        if len(neighbors) > MAX_SHOWN and layers:
            mean = torch.stack([weights.mean(0) for weights in layers.values()]).mean(0)
            shown = mean.topk(MAX_SHOWN).indices.sort().values
        else:
            shown = torch.arange(min(len(neighbors), MAX_SHOWN))
        nodes = neighbors[shown.numpy()].tolist()
        axes = Axis("node", (label(node),)), Axis("neighbor", tuple(map(label, nodes)))
        sources = {
            number: AttentionSource(str(number), call, 0, torch.tensor([own]), shown) for number, call in calls.items()
        }
        maps = (
            AttentionMap("encoder", number, part, table[:, None, shown], *axes, source=sources[number])
            for number, table in layers.items()
        )
        return tuple(maps), nodes

    def node_facts(self, nodes: Sequence[int]) -> dict[str, Any]:
        """Return the fact ``node_labels``: the class of each node, empty if unknown; {} for a graph without classes."""
        if not self.graph.classes:
            return {}
        numbers = self.graph.labels[list(nodes)].tolist()
        return {"node_labels": ["" if number == UNLABELED else self.graph.classes[number] for number in numbers]}

    def neighborhood(self, centers: Sequence[int], shown: Iterable[int], label: Callable[[int], str]) -> Surface:
        """Return the drawing of up to ``MAX_SHOWN`` of the nodes and their neighbors, the centers first."""
        nodes = list(dict.fromkeys([*centers, *shown]))[:MAX_SHOWN]
        place = {node: number for number, node in enumerate(nodes)}
        edges = {
            (min(number, place[other]), max(number, place[other]))
            for node, number in place.items()
            for other in self.graph.neighbors(node).tolist()
            if other in place and other != node
        }
        center = 0 if len(centers) == 1 else None
        pieces, drawn = tuple(map(label, nodes)), tuple(sorted(edges))
        return Surface("graph", pieces, ids=tuple(nodes), edges=drawn, center=center)
