"""The predictor of nodes: from names of nodes to classes."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.answers.named_labels import DECIMALS, ranked
from regard.answers.plain_class import PlainClass
from regard.core.observation import Influence, Observation, Prediction, Site
from regard.core.predictor_interface import MAX_CHOICES, InputForm, PredictorInterface
from regard.core.task import Indices
from regard.core.tensors import to_device
from regard.core.wording import listed
from regard.inference.states import pooled, require_output
from regard.tasks.graph_batch import GraphCodecs, GraphTensors, graph_tensors
from regard.tasks.graph_outcomes import GraphOutcomes
from regard.tasks.hidden_nodes import HIDING, HiddenNodes, without_features
from regard.tasks.influence import HiddenPieces, influences
from regard.tasks.named_nodes import NodePredictor
from regard.tasks.nodes.baseline import training_nodes
from regard.tasks.nodes.outcomes import node_outcomes
from regard.tasks.nodes.sampling import SomeNodes

MAX_ALTERNATIVES = 10  # maximum number of classes that are shown for a node


class NodeClass(NamedTuple):
    """The class of a node.

    Attributes:
        node: the name of the node.
        label: its most probable class.
        probability: of the class, 0 to 1.
        probabilities: of all classes, by name.
    """

    node: str
    label: str
    probability: float
    probabilities: dict[str, float]


class NodeClassifier(NodePredictor[NodeClass]):
    """A trained node classifier: ``regard.load("runs/cora")(["31336"])[0].label``.

    With ``data.batch_nodes`` it reads batches of nodes with their neighborhoods, otherwise the whole graph.

    Args:
        net: the network over nodes.
        codecs: the graph of the run, and the wide part if it has one.
        config: the config of the run.
        engine: not used; a parameter of all predictors.
    """

    def __init__(self, net: Any, codecs: GraphCodecs, config: Any, engine: Any = None) -> None:
        super().__init__(net, codecs, config)
        graph = self.graph
        self.answer = PlainClass.of(graph.classes, codecs.temperature)
        self._whole = graph_tensors(graph, self.device) if config.data.batch_nodes is None else None
        self._some = SomeNodes(graph) if self._whole is None else None

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.graph.classes

    @property
    def interface(self) -> PredictorInterface:
        """Inputs and outputs of a request, for servers."""

        def predict(name: str, settings: None, interrupted: Callable[[], bool]) -> NodeClass:
            return self.predict([name])[0]

        takes, gives = "the name of a node", "its class, with the probability of each class"
        purpose = f"Classifies a node of its graph as {listed(self.labels)}."
        form = InputForm("nodes", ("node",), tuple(self.graph.names[:MAX_CHOICES]))
        return PredictorInterface(takes, gives, None, predict, purpose, self.labels, form)

    @torch.no_grad()
    def predict(self, inputs: Sequence[str]) -> list[NodeClass]:  # type: ignore[override]
        """Return a prediction for each node name; raise DataError for an unknown name."""
        nodes = self.numbered(inputs)
        predictions = []
        for node, row in zip(nodes, self._log_probabilities(nodes).exp().tolist(), strict=True):
            p = dict(zip(self.graph.classes, row, strict=True))
            label = max(p, key=p.__getitem__)
            predictions.append(NodeClass(self.graph.name(node), label, p[label], p))
        return predictions

    def _log_probabilities(self, nodes: Sequence[int]) -> Tensor:
        """Return the log probabilities (nodes, classes), in the order of ``nodes``."""
        if self._whole is not None:
            logits: Tensor = self.net(*self._whole)[list(nodes)]
        else:
            different, place = np.unique(np.array(nodes, np.int64), return_inverse=True)
            logits = torch.cat([self.net(*self._inputs(part)) for part in self._parts(different)])
            logits = logits[torch.from_numpy(place)]
        if self._added is not None:
            logits = logits.double().cpu() + self._added[list(nodes)]
        return self.answer.probabilities(logits.double()).log().cpu()

    @cached_property
    def _added(self) -> Tensor | None:
        """Outputs (nodes, classes) of the wide part; None without one."""
        if self.wide is None:
            return None
        return torch.from_numpy(self.wide.outputs(self.graph, training_nodes(self.graph)))

    def outcomes(self, examples: Any, indices: Indices | None = None) -> GraphOutcomes:
        """See ``NodePredictor``."""
        return node_outcomes(self.net, self.answer, examples, indices)

    def embeddings(self, inputs: Sequence[Any], layer: int | None, pooling: str) -> npt.NDArray[np.float32]:
        """See ``Predictor.embed`` and ``hidden``; a node is one position."""
        require_output(layer)
        different, place = np.unique(np.array(self.numbered(inputs), np.int64), return_inverse=True)
        return pooled([torch.from_numpy(row[None]) for row in self.hidden(different)[place]], pooling)

    @torch.no_grad()
    def hidden(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the outputs (nodes, width) of the last hidden layer, or of the only layer, for different ``nodes``."""
        place = -2 if len(self.net.layers) > 1 else -1
        if self._whole is not None:
            states: Tensor = self.net.states(*self._whole)[place][torch.from_numpy(nodes)]
        else:
            parts = self._parts(nodes)
            states = torch.cat([self.net.states(*self._inputs(part))[place][: len(part)] for part in parts])
        return states.float().cpu().numpy()

    def _parts(self, nodes: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        size = self.config.data.batch_nodes or self.graph.nodes
        return np.split(nodes, range(size, len(nodes), size))

    def _inputs(self, nodes: npt.NDArray[np.int64]) -> GraphTensors:
        """Return the tensors of different nodes and their complete neighborhoods."""
        assert self._some is not None
        return to_device(self._some.inputs(nodes, [None] * len(self.net.layers)), self.device)

    def read(self, line: str) -> str:
        """Return the name of the node in a line, or its number if nodes have no names."""
        if not line.strip():
            raise ValueError("expected the name of a node, found a blank line")
        self.node(line.strip())
        return line.strip()

    def cost(self, name: str) -> int:
        """Return 1: a prediction for any node reads the graph of the model."""
        return 1

    def write(self, output: NodeClass, *, json: bool) -> str:
        """Return the class; with ``json``, an object with the probabilities of all classes."""
        if not json:
            return output.label
        rounded = {name: round(p, DECIMALS) for name, p in output.probabilities.items()}
        return jsonlib.dumps({"node": output.node, "label": output.label, "probabilities": rounded}, ensure_ascii=False)

    @torch.no_grad()
    def inspect(self, name: str) -> Observation:
        """Return the attention of a node to its neighbors in each layer, and the most probable classes of all nodes."""
        node = self.node(name)
        neighbors = self.graph.neighbors(node)
        tensors, positions = (
            (self._whole, neighbors) if self._whole else (self._inputs(neighbors), np.arange(len(neighbors)))
        )
        maps, shown = self.observed_edges(self.net, tensors, node, self.graph.name, positions)
        surface = self.neighborhood([node], shown, self.graph.name)
        predictions = tuple(
            Prediction.best(Site("node", (place,)), "label", ranked(self.graph.classes, log_p)[:MAX_ALTERNATIVES])
            for place, log_p in enumerate(self._log_probabilities(surface.ids))
        )
        return Observation((surface,), predictions, maps, facts=self.node_facts(surface.ids))

    @torch.no_grad()
    def scores(self, name: str, observation: Observation) -> list[float]:
        """See ``core.observation.Traced``."""
        labels = [self.graph.classes.index(prediction.label) for prediction in observation.predictions]
        log_p = self._log_probabilities(observation.surfaces[0].ids)
        return [float(row[label]) for row, label in zip(log_p, labels, strict=True)]

    def influences(self, name: str, observation: Observation) -> tuple[Influence, ...]:
        """Return the influence of the features of each displayed node on the class of the first node, the input."""
        nodes, labels = observation.surfaces[0].ids, self.graph.classes
        is_local = self.config.model.sees == "edges"
        network = HiddenNodes(self.net, self.graph, nodes[:1], is_local=is_local)
        number = labels.index(observation.predictions[0].label)

        def scores(hidden: list[int]) -> list[list[float]]:
            added = self._outputs_without(nodes[0], hidden)
            logits = torch.cat([*network.outputs([None, *hidden])]).double() + added
            return self.answer.log_probabilities(logits)[:, number, None].tolist()

        return influences(observation.predictions[:1], [HiddenPieces(0, HIDING, nodes)], scores)

    def _outputs_without(self, node: int, hidden: Sequence[int]) -> Tensor:
        """Return the outputs (1 + hidden, classes) of the wide part for a node, then without each hidden node.

        Neither the features nor the known class of a hidden node are read.
        """
        if self._added is None:
            return torch.zeros(1 + len(hidden), len(self.graph.classes))
        known = training_nodes(self.graph)
        without = [
            torch.from_numpy(self.wide.outputs(without_features(self.graph, one), known[known != one])[node])
            for one in hidden
        ]
        return torch.stack([self._added[node], *without])
