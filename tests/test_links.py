"""Links: held-out edges, pairs without one, and measures of a ranking, each against a count by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.data.graphs import Graph, edge_pairs
from regard.errors import DataError
from regard.metrics.ranking import area_under_curve, average_precision, ranking_sums
from regard.models.graph.build import build_graph_net
from regard.models.graph.config import GraphNetConfig
from regard.models.graph.links import LinkNet
from regard.tasks.links.config import LinksDataConfig
from regard.tasks.links.examples import LinkExamples, dealt_edges
from regard.tasks.links.task import TASK

DATA = LinksDataConfig(train=(), valid_share=0.2, test_share=0.2)


def ring(nodes: int = 20) -> Graph:
    edges = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes], 1)
    entries = np.stack([np.arange(nodes)] * 2)
    labels = np.full(nodes, -1)
    return Graph("g", nodes, nodes, edge_pairs(edges, nodes), entries, np.ones(nodes, np.float32), labels, ())


def test_each_edge_is_in_one_part_and_a_function_of_the_draw():
    parts = dealt_edges(ring(), DATA)
    assert [len(edges) for edges in parts] == [12, 4, 4]
    assert len(np.unique(np.concatenate(parts), axis=0)) == 20
    again, other = dealt_edges(ring(), DATA), dealt_edges(ring(), DATA.model_copy(update={"draw": 2}))
    assert all(np.array_equal(*pair) for pair in zip(parts, again, strict=True))
    assert not np.array_equal(parts.test, other.test)


def test_pairs_beside_edges_have_none_and_are_new_each_time():
    graph = ring()
    examples = LinkExamples(graph, graph, dealt_edges(graph, DATA).train, seed=1, stream=6)
    known = set(map(tuple, graph.pairs.T.tolist()))
    seen = set()
    for epoch in range(40):
        (batch,) = examples.batches(epoch)
        ends = examples.collate(batch).ends.T.tolist()
        assert len(ends) == 24 and not known & set(map(tuple, ends[12:])), "a stranger is a neighbour, or oneself"
        seen |= set(map(tuple, ends[12:]))
    assert len(seen) > 0.7 * (400 - len(known)), "all pairs without an edge are drawn"
    first, second = (examples.collate(examples.batches(None)[0]).ends for _ in range(2))
    assert torch.equal(first, second)


def test_nodes_look_along_the_edges_of_training_alone(tmp_path: Path):
    tables = TASK.sample(tmp_path)
    run = regard.train({"task": "links", **tables, "train": {"epochs": 1, "threads": 1}}, tmp_path / "run")
    model = regard.load(run)
    edges = int((model.graph.pairs[0] < model.graph.pairs[1]).sum())
    assert edges == 12 - round(0.2 * 12) - round(0.1 * 12)
    assert 0 < model([("n0", "n1")])[0].probability < 1 and model([]) == []
    assert set(model.inspect(("n0", "n5")).attention) == {f"{n}: layers.{k}" for n in ("n0", "n5") for k in (0, 1)}
    with pytest.raises(ValueError, match="two nodes"):
        model.read("n0")


def test_a_complete_graph_has_nothing_to_tell_apart():
    every = np.argwhere(np.ones((4, 4)))
    graph = Graph(
        "g", 4, 1, edge_pairs(every, 4), np.zeros((2, 0), np.int64), np.zeros(0, np.float32), every[:4, 0], ()
    )
    with pytest.raises(DataError, match="every two nodes"):
        LinkExamples(graph, graph, every, seed=1, stream=6)
    with pytest.raises(DataError, match="too few edges"):
        dealt_edges(graph, LinksDataConfig(train=(), valid_share=0.01))


def by_pairs(scores: list[float], positive: list[bool]) -> float:
    pairs = [
        (p, n)
        for p, yes in zip(scores, positive, strict=True)
        if yes
        for n, no in zip(scores, positive, strict=True)
        if not no
    ]
    return sum((p > n) + (p == n) / 2 for p, n in pairs) / len(pairs)


def test_measures_of_a_ranking_with_a_pencil():
    """Ranked + − + −: of four pairs three are right; precision 1 at the first edge and 2/3 at the second."""
    scores, positive = [0.9, 0.8, 0.7, 0.1], [True, False, True, False]
    counts = ranking_sums(torch.tensor(scores), torch.tensor(positive))
    assert area_under_curve(counts) == pytest.approx(0.75) == by_pairs(scores, positive)
    assert average_precision(counts) == pytest.approx((1 + 2 / 3) / 2)
    draw = np.random.default_rng(1)
    scores, positive = (draw.integers(0, 20, 60) / 20 + 0.01).tolist(), (draw.random(60) < 0.4).tolist()
    halves = [ranking_sums(torch.tensor(scores[at::2]), torch.tensor(positive[at::2])) for at in (0, 1)]
    assert area_under_curve(halves[0] + halves[1]) == pytest.approx(by_pairs(scores, positive))


def test_a_bilinear_decoder_begins_as_the_product():
    net = build_graph_net(GraphNetConfig(kind="gcn", width=4, dropout=0.0), features=3, outputs=5)
    x, pairs = torch.randn(4, 3), torch.from_numpy(edge_pairs(np.array([[0, 1], [1, 2]]), 4))
    ends = torch.tensor([[0, 1], [3, 3]])
    dot, bilinear = (
        LinkNet(net, 5, bilinear=each)(x, pairs, torch.ones(pairs.shape[1]), ends) for each in (False, True)
    )
    torch.testing.assert_close(dot, bilinear)
    z = net(x, pairs, torch.ones(pairs.shape[1]))
    torch.testing.assert_close(dot, (z[[0, 1]] * z[[3, 3]]).sum(-1))
