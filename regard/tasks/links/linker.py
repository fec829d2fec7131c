"""A trained model of links at work: two names of nodes to the probability of an edge."""

from __future__ import annotations

import json as jsonlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from regard.core.observation import Alternative, AttentionWeights, Observation, ObservedStep
from regard.core.task import Indices, MetricSums, never
from regard.core.untrusted_files import parse_json
from regard.data.graphs import Graph
from regard.models.graph.links import LinkNet
from regard.tasks.graph_batch import graph_tensors
from regard.tasks.links.config import LinksConfig
from regard.tasks.nodes.classifier import node_number, observed_edges

__all__ = ["Link", "Linker"]


class Link(NamedTuple):
    """Two nodes and the probability of an edge between them, where half of the candidates have one."""

    source: str
    target: str
    probability: float


class Linker:
    """A network with the graph that it was trained on: ``regard.load("runs/papers")([("17", "90")])``."""

    def __init__(self, net: LinkNet, graph: Graph, config: LinksConfig) -> None:
        self.net, self.graph, self.config = net.eval(), graph, config
        self._tensors = graph_tensors(graph, next(net.parameters()).device)

    @torch.no_grad()
    def __call__(self, inputs: Sequence[tuple[str, str]]) -> list[Link]:
        """One outcome for each pair of names. DataError for a name that the graph has not."""
        ends = [[node_number(self.graph, name) for name in pair] for pair in inputs]
        if not ends:
            return []
        columns = torch.tensor(ends, device=self._tensors.pairs.device).T
        found = self.net(*self._tensors, columns).double().sigmoid().tolist()
        return [Link(*pair, probability) for pair, probability in zip(inputs, found, strict=True)]

    def read(self, line: str) -> tuple[str, str]:
        """Two names with a space between them, or a JSON list of two."""
        names = parse_json(line) if line.lstrip().startswith("[") else line.split()
        if not isinstance(names, list) or len(names) != 2 or not all(isinstance(name, str) for name in names):
            raise ValueError("a line names two nodes: with a space between them, or as a JSON list")
        return names[0], names[1]

    def write(self, output: Link, *, json: bool) -> str:
        """The probability, or an object with the names beside it."""
        rounded = round(output.probability, 6)
        return jsonlib.dumps(output._asdict() | {"probability": rounded}, ensure_ascii=False) if json else f"{rounded}"

    def measure(
        self, examples: Any, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = never
    ) -> MetricSums:
        """Nothing: all is counted by the objective."""
        return {}

    @torch.no_grad()
    def inspect(self, pair: tuple[str, str]) -> Observation:
        """Attention of both nodes to their neighbours, and the probability of an edge."""
        attention: dict[str, AttentionWeights] = {}
        for name in pair:
            node = node_number(self.graph, name)
            found, _ = observed_edges(self.net.net, self._tensors, self.graph, node, self.graph.name)
            attention |= {f"{name}: {place}": weights for place, weights in found.items()}
        (link,) = self([pair])
        every = {"edge": link.probability, "no edge": 1 - link.probability}
        ranked = sorted(every.items(), key=lambda item: -item[1])
        best = tuple(Alternative(name, math.log(max(p, 1e-300))) for name, p in ranked)
        return Observation(" ".join(pair), attention, (ObservedStep(" ".join(pair), best[0].log_probability, best),))
