"""Held-out edges of a graph, and random pairs without an edge."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from regard.baselines.links import LinkBaseline
from regard.core.randomness import example_generator
from regard.core.task import ExampleIndices
from regard.core.wording import pluralize
from regard.data.graphs import Graph
from regard.errors import DataError
from regard.tasks.example_lines import spread
from regard.tasks.graph_batch import GraphTensors, OneGraph
from regard.tasks.links.config import LinksDataConfig

STREAM = 5  # of draws
Numbers = npt.NDArray[np.int64]


class EdgeParts(NamedTuple):
    """Edges (edges, 2) of each part, without repetition."""

    train: Numbers
    valid: Numbers
    test: Numbers


def split_edges(graph: Graph, data: LinksDataConfig) -> EdgeParts:
    """Divide the edges of a graph into three parts; the result depends only on the graph and ``data.draw``.

    Raises:
        DataError: if a part would be empty.
    """
    # Self-loops are not links; of an undirected edge, which is stored in both directions, one pair is kept.
    once = graph.pairs[0] < graph.pairs[1] if not data.directed else graph.pairs[0] != graph.pairs[1]
    edges = graph.pairs[:, once].T
    order = np.random.default_rng([data.draw, STREAM]).permutation(len(edges))
    valid, test = (round(share * len(edges)) for share in (data.valid_share, data.test_share))
    if min(valid, test, len(edges) - valid - test) < 1:
        why = f"of {pluralize(len(edges), 'edge')}, validation gets {valid:,} and the test {test:,}"
        help = "add edges, or increase data.valid_share and data.test_share"
        raise DataError("the graph has too few edges for held-out parts", where=graph.where, why=why, help=help)
    parts = np.split(edges[order], [valid, valid + test])
    return EdgeParts(np.unique(parts[2], axis=0), parts[0], parts[1])


class LinkBatch(NamedTuple):
    """A graph and pairs of its nodes: first pairs with an edge, then the same number without one."""

    inputs: GraphTensors
    ends: Tensor  # (2, candidates)
    exists: Tensor  # (candidates,) bool
    wide: Tensor | None  # (candidates,), added to the logits
    index: Tensor  # type: ignore[assignment]  # (1,); hides tuple.index
    weight: float


def link_logits(net: nn.Module, batch: LinkBatch) -> Tensor:
    """Return the logits (candidates,) of edges, with those of the wide part."""
    logits: Tensor = net(*batch.inputs[:3], batch.ends)
    return logits if batch.wide is None else logits + batch.wide


class LinkExamples(OneGraph):
    """Edges of one part and the same number of pairs without an edge, drawn at each visit.

    In an evaluation, the drawn pairs are always the same.

    Args:
        visible: the graph whose edges the nodes attend along.
        whole: the graph of all edges, which are never drawn as negative pairs.
        edges: the edges (edges, 2) of the part.
        seed: the seed of the drawn pairs.
        stream: the number of the random stream.
        wide: the wide part of the model, or None.
        held_out: whether it was fitted on these edges. Each of them is then measured without the edges of its fold.
    """

    def __init__(
        self, visible: Graph, whole: Graph, edges: Numbers, *, seed: int, stream: int,
        wide: LinkBaseline | None = None, held_out: bool = False,
    ) -> None:  # fmt: skip
        self._wide = wide
        self._own: npt.NDArray[np.float64] | None = None  # outputs of the wide part for the edges
        if wide is not None:
            self._own = wide.held_out_outputs(visible, edges) if held_out else wide.outputs(visible, edges)
        super().__init__(visible, 2 * len(edges))
        self._where = whole.where  # the visible graph is that of the run
        self.edges, self._seed, self._stream = edges, seed, stream
        self._codes = whole.pairs[0] * whole.nodes + whole.pairs[1]  # sorted; includes each node with itself
        if len(self._codes) == whole.nodes**2:
            why = "training needs pairs of nodes without an edge"
            raise DataError("all pairs of nodes have an edge", where=whole.where, why=why)

    def where(self, index: int) -> str:
        return self._where

    def lines(self) -> Iterator[str]:
        """Yield a few edges as inputs of ``Linker.read``."""
        for index in spread(len(self.edges)):
            names = [self.graph.name(int(node)) for node in self.edges[index]]
            plain = all(re.fullmatch(r"[^\s\[{]\S*", name) for name in names)
            yield " ".join(names) if plain else json.dumps(names, ensure_ascii=False)

    def collate(self, examples: ExampleIndices) -> LinkBatch:
        unlinked = self._negative_pairs(int(examples.visit[0]))
        ends, wide = np.concatenate([self.edges, unlinked]).T, None
        if self._wide is not None and self._own is not None:
            wide = torch.from_numpy(np.concatenate([self._own, self._wide.outputs(self.graph, unlinked)])).float()
        exists = torch.arange(ends.shape[1]) < len(self.edges)
        pairs = torch.from_numpy(np.ascontiguousarray(ends))
        return LinkBatch(self.tensors, pairs, exists, wide, self.index, float(self.weight))

    def _negative_pairs(self, visit: int) -> Numbers:
        """Return one pair per edge, drawn uniformly and with replacement from all pairs without an edge.

        Rejection sampling: draw pairs of nodes and drop those with an edge, until enough are left.
        """
        draw, nodes, drawn = example_generator(self._seed, self._stream, 0, visit), self.graph.nodes, []
        missing = len(self.edges)
        while missing:
            code = draw.integers(0, nodes * nodes, 2 * missing + 8)
            place = np.searchsorted(self._codes, code).clip(max=len(self._codes) - 1)
            drawn.append(code[self._codes[place] != code][:missing])
            missing -= len(drawn[-1])
        codes = np.concatenate(drawn) if drawn else np.zeros(0, np.int64)
        return np.stack([codes // nodes, codes % nodes], 1)
