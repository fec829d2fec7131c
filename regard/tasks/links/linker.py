"""A trained model of links at work: two nodes to the probability of an edge, one to those it should have."""

from __future__ import annotations

import json as jsonlib
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from regard.core.call_checks import require_count, require_list
from regard.core.observation import Alternative, AttentionWeights, Observation, ObservedStep
from regard.core.predictor_interface import PredictorInterface
from regard.core.untrusted_files import json_value, shortened
from regard.core.wording import counted_with
from regard.data.graphs import Graph
from regard.errors import DataError
from regard.tasks.graph_batch import graph_tensors
from regard.tasks.named_nodes import NodePredictor

__all__ = ["BestLinks", "Link", "Linker"]

BEST = 10  # links of one node
ROWS = 256  # nodes that are held against all at once


class Link(NamedTuple):
    """Two nodes and the probability of an edge between them, where half of the candidates have one."""

    source: str
    target: str
    probability: float


class BestLinks(NamedTuple):
    """A node, and the nodes that it likeliest has an edge to of those it has none to in the graph, best first."""

    source: str
    links: list[Link]


class LinkRequest(BaseModel):
    """Settings of links that a request may have."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    top_k: Annotated[int, Field(ge=1, le=1000)] | None = Field(None, description="Links of an input of one node.")


class Linker(NodePredictor):
    """A trained model of links: ``regard.load("runs/papers")([("17", "90")])``."""

    reads_json = True

    def __init__(self, net: Any, graph: Graph, config: Any, engine: Any = None) -> None:
        super().__init__(net, graph, config)
        self._tensors = graph_tensors(graph, self.device)

    @torch.no_grad()
    def __call__(self, inputs: Sequence[Sequence[str]], *, top_k: int = BEST) -> list[Any]:
        """A ``Link`` for two names of nodes, ``BestLinks`` for one. DataError for a name that the graph has not.

        ``top_k``: links of one node. ConfigError where it is below 1.
        """
        require_list(inputs)
        require_count("top_k", top_k)
        inputs = [(names,) if isinstance(names, str) else names for names in inputs]
        numbers = [self._numbers(names) for names in inputs]
        pairs = [each for each in numbers if len(each) == 2]
        told = iter(self._probabilities(pairs) if pairs else ())
        z = self._states() if len(pairs) < len(numbers) else torch.empty(0)
        return [
            Link(names[0], names[1], next(told)) if len(each) == 2 else self._best(z, each[0], top_k)
            for names, each in zip(inputs, numbers, strict=True)
        ]

    @property
    def interface(self) -> PredictorInterface:
        """Settings of a request: for servers."""

        def predict(names: Sequence[str], asked: Any, interrupted: Callable[[], bool]) -> Link | BestLinks:
            found: Link | BestLinks = self([names], top_k=asked.top_k)[0]
            return found

        takes = "two nodes, with a space between them or as a JSON list; or one node"
        gives = "the probability of an edge; of one node, those that it likeliest has an edge to"
        return PredictorInterface(takes, gives, LinkRequest(top_k=BEST), predict)

    def _numbers(self, names: Sequence[str]) -> list[int]:
        """The numbers of one node, or of two that differ."""
        if len(names) not in (1, 2):
            raise DataError(
                f"{counted_with(len(names), 'node', 'is', 'are')} named",
                why="two have a link, and one has its best links",
            )
        if len(names) == 1 and names[0] not in self.graph.places and len(names[0].split()) == 2:
            pair = tuple(names[0].split())
            why = "a text is the name of one node, and two nodes are two texts"
            help = f"a pair in Python: model([{shortened(repr(pair))}])"
            raise DataError(f"the graph has no node {shortened(names[0])!r}", why=why, help=help)
        found = [self.node(name) for name in names]
        if len(found) == 2 and found[0] == found[1]:
            why = "no pair of a node and itself was trained on"
            raise DataError(
                f"{names[0]!r} is both ends of the link", why=why, help="name another node, or this one alone"
            )
        return found

    def _probabilities(self, pairs: Sequence[Sequence[int]]) -> list[float]:
        columns = torch.tensor(pairs, device=self._tensors.pairs.device).T
        found: list[float] = self.net(*self._tensors[:3], columns).double().sigmoid().tolist()
        return found

    def _states(self) -> Tensor:
        z: Tensor = self.net.net(*self._tensors)
        return z

    def _logits(self, z: Tensor, nodes: Tensor) -> Tensor:
        """(some, nodes): of every pair without an edge, −∞ of others; one node's neighbours are not missing."""
        logits = self.net.against_all(z, nodes).double().cpu()
        for row, node in zip(logits, nodes.tolist(), strict=True):
            row[torch.from_numpy(self.graph.neighbours(node))] = -math.inf
        return logits

    def _best(self, z: Tensor, node: int, number: int) -> BestLinks:
        (logits,) = self._logits(z, torch.tensor([node], device=z.device))
        value, place = logits.topk(min(number, len(logits)))
        name = self.graph.name
        found = [
            Link(name(node), name(other), probability)
            for other, probability in zip(place.tolist(), value.sigmoid().tolist(), strict=True) if probability > 0
        ]  # fmt: skip
        return BestLinks(name(node), found)

    @torch.no_grad()
    def missing(self, number: int) -> list[Link]:
        """The likeliest pairs of the whole graph without an edge, best first; of an undirected one each pair once.

        Cost: the square of the nodes in time, and ``number`` and some rows of it in memory.
        """
        z, found = self._states(), list[tuple[float, int, int]]()
        for begin in range(0, self.graph.nodes, ROWS):
            nodes = torch.arange(begin, min(begin + ROWS, self.graph.nodes), device=z.device)
            logits = self._logits(z, nodes)
            if not self.config.data.directed:
                logits = logits.masked_fill(torch.arange(self.graph.nodes) < nodes.cpu()[:, None], -math.inf)
            value, place = logits.flatten().topk(min(number, logits.numel()))
            first, second = place // self.graph.nodes + begin, place % self.graph.nodes
            ends = zip(value.tolist(), first.tolist(), second.tolist(), strict=True)
            found += [each for each in ends if each[0] > -math.inf]
            found = sorted(found, key=lambda each: (-each[0], *each[1:]))[:number]
        name = self.graph.name
        return [Link(name(one), name(other), 1 / (1 + math.exp(-max(logit, -700)))) for logit, one, other in found]

    def read(self, line: str) -> tuple[str, ...]:
        """One name, or two with a space between them, or a JSON list of them."""
        found = json_value(line)
        names = found if isinstance(found, list) else line.split()
        if not isinstance(names, list) or len(names) not in (1, 2) or not all(isinstance(name, str) for name in names):
            raise ValueError("a line names two nodes, with a space between them or as a JSON list; or one node")
        self._numbers(names)
        return tuple(names)

    def cost(self, names: Sequence[str]) -> int:
        """Return the number of names: a prediction reads the graph of the model, whatever nodes are named."""
        return len(names)

    def write(self, output: Link | BestLinks, *, json: bool) -> str:
        """The probability, or the names of the best nodes; or an object with both."""
        if isinstance(output, BestLinks):
            if not json:
                return " ".join(each.target for each in output.links)
            links = [{"target": each.target, "probability": round(each.probability, 6)} for each in output.links]
            return jsonlib.dumps({"source": output.source, "links": links}, ensure_ascii=False)
        rounded = round(output.probability, 6)
        return jsonlib.dumps(output._asdict() | {"probability": rounded}, ensure_ascii=False) if json else f"{rounded}"

    @torch.no_grad()
    def inspect(self, names: Sequence[str]) -> Observation:
        """Attention of the nodes to their neighbours, and the probability of an edge, or the best links of one."""
        self._numbers(names)
        attention: dict[str, AttentionWeights] = {}
        for name in names:
            node = self.node(name)
            found, _ = self.observed_edges(self.net.net, self._tensors, node, self.graph.name)
            attention |= {f"{name}: {place}": weights for place, weights in found.items()}
        (link,) = self([names])
        text = " ".join(names)
        if isinstance(link, BestLinks):
            each = tuple(Alternative(one.target, math.log(max(one.probability, 1e-300))) for one in link.links)
            return Observation(text, attention, (), each)
        every = {"edge": link.probability, "no edge": 1 - link.probability}
        ranked = sorted(every.items(), key=lambda item: -item[1])
        best = tuple(Alternative(name, math.log(max(p, 1e-300))) for name, p in ranked)
        return Observation(text, attention, (ObservedStep(text, best[0].log_probability, best),))
