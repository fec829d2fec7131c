"""The predictor of links: the probability of an edge between two nodes, or the most probable links of one node."""

from __future__ import annotations

import json as jsonlib
import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.answers.named_labels import DECIMALS
from regard.config.prediction_settings import LinkedNodeSettings
from regard.config.setting import settings_of
from regard.config.setting_models import request_model
from regard.core.observation import Alternative, AttentionMap, Influence, Observation, Prediction, Site
from regard.core.predictor import input_number
from regard.core.predictor_interface import MAX_CHOICES, InputForm, PredictorInterface, require_count
from regard.core.task import Indices
from regard.core.tensors import to_device
from regard.core.untrusted_files import json_value, shortened
from regard.core.wording import pluralize_with_verb
from regard.errors import DataError
from regard.inference.states import pooled, require_output
from regard.tasks.graph_batch import GraphCodecs, graph_tensors
from regard.tasks.graph_outcomes import GraphOutcomes
from regard.tasks.hidden_nodes import HIDING, HiddenNodes, without_features
from regard.tasks.influence import HiddenPieces, influences
from regard.tasks.links.edge_answer import CLASSES, EdgeAnswer, edge_outputs
from regard.tasks.links.examples import LinkBatch, link_logits
from regard.tasks.named_nodes import NodePredictor

if TYPE_CHECKING:
    LinkSettings = LinkedNodeSettings
else:
    LinkSettings = request_model(LinkedNodeSettings)

TOP_K: int = settings_of(LinkedNodeSettings)["top_k"].default
ROWS = 256  # nodes that are compared with all nodes in one product


class Link(NamedTuple):
    """Two nodes and the probability of an edge between them.

    Attributes:
        source: the name of one node.
        target: the name of the other.
        probability: of an edge, 0 to 1, if half of all candidates have an edge.
    """

    source: str
    target: str
    probability: float


class BestLinks(NamedTuple):
    """The most probable links of one node.

    Attributes:
        source: the name of the node.
        links: links to nodes that are not its neighbors, best first.
    """

    source: str
    links: list[Link]


class Linker(NodePredictor["Link | BestLinks"]):
    """A trained link model: ``regard.load("runs/papers")([("17", "90")])``.

    It reads the graph of the run, which training saved. Probabilities assume that half of all candidates have an edge.

    Args:
        net: the network over nodes and pairs of nodes.
        codecs: the graph of the run, and the wide part if it has one.
        config: the config of the run.
        engine: not used; a parameter of all predictors.
    """

    reads_json = True
    labels = CLASSES

    def __init__(self, net: Any, codecs: GraphCodecs, config: Any, engine: Any = None) -> None:
        super().__init__(net, codecs, config)
        self._tensors = graph_tensors(self.graph, self.device)
        self.answer = EdgeAnswer.of(CLASSES, codecs.temperature)

    def is_one(self, inputs: Any) -> bool:
        """Return whether an argument is one input: a name, or a tuple of two."""
        return isinstance(inputs, str | tuple)

    @torch.no_grad()
    def predict(self, inputs: Sequence[str | Sequence[str]], *, top_k: int = TOP_K) -> list[Link | BestLinks]:  # type: ignore[override]
        """Return a ``Link`` for two node names, ``BestLinks`` for one.

        Args:
            inputs: the inputs, each of one or two names.
            top_k: the number of links of one node.

        Raises:
            ConfigError: if ``top_k`` is below 1.
            DataError: if the graph has no node with a name.
        """
        require_count("top_k", top_k)
        named: list[Sequence[str]] = [(names,) if isinstance(names, str) else names for names in inputs]
        numbers = []
        for place, names in enumerate(named, start=1):
            with input_number(place):
                numbers.append(self._numbers(names))
        pairs = [nodes for nodes in numbers if len(nodes) == 2]
        probabilities = iter(self._probabilities(pairs) if pairs else ())
        z = self._states() if len(pairs) < len(numbers) else torch.empty(0)
        return [
            Link(names[0], names[1], next(probabilities)) if len(nodes) == 2 else self._best(z, nodes[0], top_k)
            for names, nodes in zip(named, numbers, strict=True)
        ]

    @property
    def interface(self) -> PredictorInterface:
        """Inputs, outputs and settings of a request, for servers."""

        def predict(names: Sequence[str], settings: Any, interrupted: Callable[[], bool]) -> Link | BestLinks:
            return self.predict([names], top_k=settings.top_k)[0]

        takes = "two nodes, separated by a space or as a JSON list; or one node"
        gives = "the probability of an edge; for one node, the most probable new neighbors"
        purpose = "Predicts whether two nodes of its graph are linked."
        form = InputForm("nodes", ("node", "node"), tuple(self.graph.names[:MAX_CHOICES]))
        return PredictorInterface(takes, gives, LinkSettings(top_k=TOP_K), predict, purpose, CLASSES, form)

    def _numbers(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of one node or of two different nodes."""
        if not isinstance(names, Sequence):
            raise DataError(f"expected one or two names of nodes, found {type(names).__name__}")
        if len(names) not in (1, 2):
            what = f"{pluralize_with_verb(len(names), 'node', 'is', 'are')} named; expected one or two"
            raise DataError(what, why="two nodes give the probability of an edge, one node gives its best links")
        if len(names) == 1 and names[0] not in self.graph.node_numbers and len(names[0].split()) == 2:
            pair = tuple(names[0].split())
            why = "in Python, a text is the name of one node"
            help = f"for two nodes, use a tuple: model([{shortened(repr(pair))}])"
            raise DataError(f"the graph has no node {shortened(names[0])!r}", why=why, help=help)
        nodes = [self.node(name) for name in names]
        if len(nodes) == 2 and nodes[0] == nodes[1]:
            what, why = f"both ends of the link are {names[0]!r}", "training has no links of a node with itself"
            raise DataError(what, why=why, help="name two different nodes, or one node only")
        return nodes

    def _probabilities(self, pairs: Sequence[Sequence[int]]) -> list[float]:
        ends = torch.tensor(pairs, device=self.device).T
        logits: Tensor = self.net(*self._tensors[:3], ends).double().cpu()
        if self.wide is not None:
            logits = logits + torch.from_numpy(self.wide.outputs(self.graph, np.array(pairs, np.int64)))
        probabilities: list[float] = (logits / self.answer.temperature).sigmoid().tolist()
        return probabilities

    @torch.no_grad()
    def outcomes(self, examples: Any, indices: Indices | None = None) -> GraphOutcomes:
        """See ``NodePredictor``; the graph is the only example."""
        (batch_indices,) = examples.batches(None)
        batch: LinkBatch = to_device(examples.collate(batch_indices), self.device)
        outputs = edge_outputs(link_logits(self.net, batch).double().cpu())
        ends, targets = batch.ends.T.cpu().numpy(), batch.exists.long().cpu()
        return GraphOutcomes(self.answer, examples.where(0), examples.graph, ends, outputs, targets)

    @torch.no_grad()
    def embeddings(self, inputs: Sequence[Any], layer: int | None, pooling: str) -> npt.NDArray[np.float32]:
        """See ``Predictor.embed``; the positions are the nodes of an input."""
        require_output(layer)
        z, states = self._states(), []
        for place, names in enumerate(inputs, start=1):
            with input_number(place):
                states.append(z[self._numbers((names,) if isinstance(names, str) else names)])
        return pooled(states, pooling)

    def _states(self) -> Tensor:
        z: Tensor = self.net.net(*self._tensors)
        return z

    def _logits(self, z: Tensor, nodes: Tensor) -> Tensor:
        """Return (some, nodes): the logits of pairs without an edge, and −∞ for pairs with an edge."""
        logits: Tensor = self.net.against_all(z, nodes).double().cpu()
        if self.wide is not None:
            logits = logits + torch.from_numpy(self.wide.against_all(self.graph, nodes.cpu().numpy()))
        for row, node in zip(logits, nodes.tolist(), strict=True):
            row[torch.from_numpy(self.graph.neighbors(node))] = -math.inf
        return logits / self.answer.temperature

    def _best(self, z: Tensor, node: int, number: int) -> BestLinks:
        (logits,) = self._logits(z, torch.tensor([node], device=z.device))
        value, place = logits.topk(min(number, len(logits)))
        name = self.graph.name
        links = [
            Link(name(node), name(other), probability)
            for other, probability in zip(place.tolist(), value.sigmoid().tolist(), strict=True) if probability > 0
        ]  # fmt: skip
        return BestLinks(name(node), links)

    @torch.no_grad()
    def missing(self, number: int) -> list[Link]:
        """Return the most probable missing edges of the whole graph, best first.

        In an undirected graph, each pair is returned once. Cost: O(nodes²) time; memory for ``number`` pairs and
        ``ROWS`` rows of logits.

        Args:
            number: the number of pairs.
        """
        z, best = self._states(), list[tuple[float, int, int]]()
        for begin in range(0, self.graph.nodes, ROWS):
            nodes = torch.arange(begin, min(begin + ROWS, self.graph.nodes), device=z.device)
            logits = self._logits(z, nodes)
            if not self.config.data.directed:
                logits = logits.masked_fill(torch.arange(self.graph.nodes) < nodes.cpu()[:, None], -math.inf)
            value, place = logits.flatten().topk(min(number, logits.numel()))
            first, second = place // self.graph.nodes + begin, place % self.graph.nodes
            links = zip(value.tolist(), first.tolist(), second.tolist(), strict=True)
            best += [link for link in links if link[0] > -math.inf]
            best = sorted(best, key=lambda link: (-link[0], *link[1:]))[:number]
        name = self.graph.name
        return [Link(name(one), name(other), 1 / (1 + math.exp(-max(logit, -700)))) for logit, one, other in best]

    def read(self, line: str) -> tuple[str, ...]:
        """Return the names in a line: one name, two names separated by a space, or a JSON list of names."""
        value = json_value(line)
        names = value if isinstance(value, list) else line.split()
        if not isinstance(names, list) or len(names) not in (1, 2) or not all(isinstance(name, str) for name in names):
            raise ValueError("expected two nodes, separated by a space or as a JSON list; or one node")
        self._numbers(names)
        return tuple(names)

    def cost(self, names: Sequence[str]) -> int:
        """Return the number of names: a prediction for any nodes reads the whole graph of the model."""
        return len(names)

    def write(self, output: Link | BestLinks, *, json: bool) -> str:
        """Return the probability, or the names of the best nodes; with ``json``, an object with both."""
        if isinstance(output, BestLinks):
            if not json:
                return " ".join(link.target for link in output.links)
            links = [{"target": link.target, "probability": round(link.probability, DECIMALS)} for link in output.links]
            return jsonlib.dumps({"source": output.source, "links": links}, ensure_ascii=False)
        rounded = round(output.probability, DECIMALS)
        return jsonlib.dumps(output._asdict() | {"probability": rounded}, ensure_ascii=False) if json else f"{rounded}"

    @torch.no_grad()
    def inspect(self, names: Sequence[str]) -> Observation:
        """Return the attention of the nodes to their neighbors, and the probability of an edge or the best links.

        Raises:
            DataError: if the graph has no node with a name.
        """
        nodes, maps, neighbors_of = self._numbers(names), list[AttentionMap](), list[list[int]]()
        for node in nodes:
            part, name = f"edges of {self.graph.name(node)}", self.graph.name
            edges, neighbors = self.observed_edges(self.net.net, self._tensors, node, name, part=part)
            maps, neighbors_of = [*maps, *edges], [*neighbors_of, neighbors]
        (output,) = self.predict([names])
        if isinstance(output, BestLinks):
            site, probabilities = Site("node", (0,)), {link.target: link.probability for link in output.links}
        else:
            site, probabilities = Site("pair", (0, 1)), {"edge": output.probability, "no edge": 1 - output.probability}
        ordered = sorted(probabilities.items(), key=lambda item: -item[1])
        best = [Alternative(label, math.log(max(p, 1e-300))) for label, p in ordered]
        predictions = (Prediction.best(site, "link", best),) if best else ()
        drawn = [node for both in zip_longest(*neighbors_of) for node in both if node is not None]  # of both in turn
        surface = self.neighborhood(nodes, drawn, self.graph.name)
        return Observation((surface,), predictions, tuple(maps), facts=self.node_facts(surface.ids))

    @torch.no_grad()
    def scores(self, names: Sequence[str], observation: Observation) -> list[float]:
        """See ``core.observation.Traced``."""
        nodes, labels = self._numbers(names), [prediction.label for prediction in observation.predictions]
        if len(nodes) == 1:  # the label is the node at the other end
            return [math.log(max(*self._probabilities([[*nodes, self.node(label)]]), 1e-300)) for label in labels]
        (p,) = self._probabilities([nodes])
        return [math.log(max(p if label == CLASSES[1] else 1 - p, 1e-300)) for label in labels]

    def influences(self, names: Sequence[str], observation: Observation) -> tuple[Influence, ...]:
        """Return the influence of the features of each displayed node on an edge, or on the best link of one node."""
        if not observation.predictions:
            return ()
        nodes, label = self._numbers(names), observation.predictions[0].label
        pair, number = (nodes, CLASSES.index(label)) if len(nodes) == 2 else ([*nodes, self.node(label)], 1)
        network = HiddenNodes(self.net.net, self.graph, pair, is_local=self.config.model.sees == "edges")

        def scores(hidden: list[int]) -> list[list[float]]:
            logits = [self.net.against_all(z, torch.tensor([0]))[0, 1] for z in network.outputs([None, *hidden])]
            outputs = edge_outputs(torch.stack(logits).double() + self._outputs_without(pair, hidden))
            return self.answer.log_probabilities(outputs)[:, number, None].tolist()

        return influences(observation.predictions, [HiddenPieces(0, HIDING, observation.surfaces[0].ids)], scores)

    def _outputs_without(self, pair: Sequence[int], hidden: Sequence[int]) -> Tensor:
        """Return the outputs (1 + hidden,) of the wide part for a pair: complete, then without each hidden node."""
        if self.wide is None:
            return torch.zeros(1 + len(hidden))
        graphs = [self.graph, *(without_features(self.graph, node) for node in hidden)]
        ends = np.array([pair], np.int64)
        return torch.from_numpy(np.concatenate([self.wide.outputs(graph, ends) for graph in graphs]))
