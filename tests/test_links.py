"""Links: held-out edges, pairs without one, and measures of a ranking, each against a count by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.core.task import ExampleIndices
from regard.data.graphs import Graph, edge_pairs
from regard.errors import ConfigError, DataError
from regard.metrics.ranking import area_under_curve, average_precision, ranking_sums
from regard.models.graph.build import build_graph_net
from regard.models.graph.config import GraphNetConfig
from regard.models.graph.heads import LinkNet
from regard.tasks.find_config import find_config
from regard.tasks.graph_batch import GraphCodecs
from regard.tasks.links.config import LinksConfig, LinksDataConfig
from regard.tasks.links.examples import LinkExamples, split_edges
from regard.tasks.links.linker import Linker
from regard.tasks.links.task import TASK
from regard.testing import TaskCase

DATA = LinksDataConfig(train=(), valid_share=0.2, test_share=0.2)


def ring(nodes: int = 20) -> Graph:
    edges = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes], 1)
    entries = np.stack([np.arange(nodes)] * 2)
    labels = np.full(nodes, -1)
    return Graph("g", nodes, nodes, edge_pairs(edges, nodes), entries, np.ones(nodes, np.float32), labels, ())


def test_each_edge_is_in_one_part_and_a_function_of_the_draw():
    parts = split_edges(ring(), DATA)
    assert [len(edges) for edges in parts] == [12, 4, 4]
    assert len(np.unique(np.concatenate(parts), axis=0)) == 20
    again, other = split_edges(ring(), DATA), split_edges(ring(), DATA.model_copy(update={"draw": 2}))
    assert all(np.array_equal(*pair) for pair in zip(parts, again, strict=True))
    assert not np.array_equal(parts.test, other.test)


def test_pairs_beside_edges_have_none_and_are_new_each_time():
    graph = ring()
    examples = LinkExamples(graph, graph, split_edges(graph, DATA).train, seed=1, stream=6)
    known = set(map(tuple, graph.pairs.T.tolist()))
    seen = set()
    for epoch in range(40):
        (batch,) = examples.batches(epoch)
        ends = examples.collate(batch).ends.T.tolist()
        assert len(ends) == 24 and not known & set(map(tuple, ends[12:])), "a stranger is a neighbor, or oneself"
        seen |= set(map(tuple, ends[12:]))
    assert len(seen) > 0.7 * (400 - len(known)), "all pairs without an edge are drawn"
    first, second = (examples.collate(examples.batches(None)[0]).ends for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("directed", [False, True])
def test_pairs_drawn_in_a_part_are_edges_of_none(tmp_path: Path, directed: bool):
    """Of a dense graph whose parts differ: what training draws is held out nowhere, and the other way round."""
    draw, nodes = np.random.default_rng(3), 9
    edges = np.argwhere(np.triu(draw.random((nodes, nodes)) < 0.6, 1))
    if directed:
        edges = np.argwhere((draw.random((nodes, nodes)) < 0.6) & ~np.eye(nodes, dtype=bool))
    np.savez(tmp_path / "g.npz", edges=edges, x=np.eye(nodes))
    data = {"train": [{"source": str(tmp_path / "g.npz")}], "directed": directed, "valid_share": 0.2, "test_share": 0.2}
    known = set(map(tuple, edges.tolist())) | {(node, node) for node in range(nodes)}
    if not directed:
        known |= {(other, one) for one, other in known}
    case = TaskCase(replace(TASK, sample=lambda folder: {"data": data | {"valid": data["train"]}}), "links")
    run = case.run()
    parts = {"train": case.data.train, "valid": case.data.valid}
    graph = case.data.train.graph
    whole = Graph("g", nodes, nodes, edge_pairs(edges, nodes, directed=directed), *_features(nodes))
    dealt = split_edges(whole, run.config.data)
    assert {*map(tuple, dealt.train.tolist())} <= {*map(tuple, graph.pairs.T.tolist())}
    for held in (dealt.valid, dealt.test):
        assert not {*map(tuple, held.tolist())} & {*map(tuple, graph.pairs.T.tolist())}
    for name, examples in parts.items():
        assert examples is not None
        for visit in range(12):
            batch: Any = examples.collate(ExampleIndices(np.array([0]), np.array([visit])))
            positive, negative = (batch.ends.T[batch.exists == sign].tolist() for sign in (True, False))
            assert {*map(tuple, positive)} == {*map(tuple, getattr(dealt, name).tolist())}
            assert len(negative) == len(positive) and not {*map(tuple, negative)} & known


def _features(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    return np.stack([np.arange(nodes)] * 2), np.ones(nodes, np.float32), np.full(nodes, -1), ()


def test_nodes_look_along_the_edges_of_training_alone(tmp_path: Path):
    tables = TASK.sample(tmp_path)
    run = regard.train({"task": "links", **tables, "train": {"epochs": 1, "threads": 1}}, tmp_path / "run")
    model = regard.load(run)
    edges = int((model.graph.pairs[0] < model.graph.pairs[1]).sum())
    assert edges == 12 - round(0.2 * 12) - round(0.1 * 12)
    assert 0 < model([("n0", "n1")])[0].probability < 1 and model([]) == []
    places = {each.place for each in model.inspect(("n0", "n5")).attention}
    assert places == {f"encoder.{layer}.edges of {node}" for node in ("n0", "n5") for layer in (0, 1)}
    with pytest.raises(ValueError, match="two nodes"):
        model.read("n0 n1 n2")


@pytest.fixture(scope="module", params=["dot", "bilinear"])
def linker(request: pytest.FixtureRequest) -> Linker:
    """An untrained model over a ring of nine and one alone."""
    torch.manual_seed(4)
    config = LinksConfig.model_validate({"data": {"train": []}, "model": {"decoder": request.param, "dropout": 0.0}})
    net = build_graph_net(config.model, features=10, outputs=16)
    links = LinkNet(net, 16, bilinear=request.param == "bilinear")
    if links.weight is not None:
        torch.nn.init.normal_(links.weight, std=0.3)
    edges = np.stack([np.arange(9), (np.arange(9) + 1) % 9], 1)
    entries, labels = np.stack([np.arange(10)] * 2), np.full(10, -1)
    graph = Graph("g", 10, 10, edge_pairs(edges, 10), entries, np.ones(10, np.float32), labels, ())
    return Linker(links, GraphCodecs(graph), config)


def test_best_links_are_the_likeliest_of_those_without_an_edge(linker: Linker):
    others = [str(node) for node in range(10) if node not in (2, 3, 4)]
    told = {other: linker([("3", other)])[0].probability for other in others}
    best = linker(["3"], top_k=4)[0]
    assert best.source == "3" and [each.target for each in best.links] == sorted(told, key=lambda name: -told[name])[:4]
    assert [each.probability for each in best.links] == pytest.approx(sorted(told.values(), reverse=True)[:4])
    assert len(linker([("9",)], top_k=100)[0].links) == 9 and len(linker([["0"]], top_k=100)[0].links) == 7
    pair, one = linker([("0", "5"), ("9",)])
    assert pair == linker([("0", "5")])[0] and one == linker(["9"])[0]
    for wrong in (0, 2.5, "x", True):
        with pytest.raises(ConfigError, match="top_k"):
            linker(["3"], top_k=wrong)  # type: ignore[arg-type]


def test_an_edge_without_direction_is_as_likely_from_either_end(linker: Linker):
    one, other = linker([("3", "7"), ("7", "3")])
    assert one.probability == pytest.approx(other.probability, abs=1e-6)
    linker.net.directed = True
    one, other = linker([("3", "7"), ("7", "3")])
    linker.net.directed = False
    assert (one.probability == pytest.approx(other.probability, abs=1e-6)) == (linker.net.weight is None)


@pytest.mark.parametrize("name", ["n" * 5000, "n" * 2500 + " " + "m" * 2500])
def test_an_unknown_name_is_quoted_in_part(linker: Linker, name: str):
    for names in ([name], [("3", name)]):
        with pytest.raises(DataError, match="no node") as caught:
            linker(names)
        assert len(str(caught.value)) < 1000


def test_names_that_are_no_link(linker: Linker):
    with pytest.raises(DataError, match="both ends"):
        linker([("3", "3")])
    for names in ((), ("0", "1", "2")):
        with pytest.raises(DataError, match="named; expected one or two"):
            linker([names])
    with pytest.raises(DataError, match="no node '3 7'") as caught:
        linker(["3 7"])
    assert caught.value.help is not None and "model([('3', '7')])" in caught.value.help
    for line, told in (("3 3", "both ends"), ("3 nobody", "no node 'nobody'"), ("nobody", "no node")):
        with pytest.raises(DataError, match=told):
            linker.read(line)
    with pytest.raises(DataError, match="both ends"):
        linker.inspect(("3", "3"))


def test_missing_links_are_the_likeliest_of_all_pairs(linker: Linker, monkeypatch: pytest.MonkeyPatch):
    pairs = [(str(i), str(j)) for i in range(10) for j in range(i + 1, 10) if j - i not in (1, 8) or j == 9]
    told = sorted(linker(pairs), key=lambda each: -each.probability)
    assert len(told) == 36
    for rows in (256, 3):
        monkeypatch.setattr("regard.tasks.links.linker.ROWS", rows)
        found = linker.missing(5)
        assert [each[:2] for each in found] == [each[:2] for each in told[:5]]
        assert [each.probability for each in found] == pytest.approx([each.probability for each in told[:5]])
    assert len(linker.missing(1000)) == 36
    linker.config = linker.config.model_copy(update={"data": linker.config.data.model_copy(update={"directed": True})})
    assert len(linker.missing(1000)) == 72


def test_files_without_labels_choose_links(tmp_path: Path):
    corpus = TASK.sample(tmp_path)["data"]["train"][0]
    found = find_config([corpus["source"], corpus["edges"]], [], [])
    assert found.task.kind == "links" and found.train.best_by == "auc"
    (tmp_path / "nodes.csv").write_text("node,a,label\nn0,1,x\n")
    assert find_config([corpus["source"], corpus["edges"]], [], []).task.kind == "nodes"
    arrays = {"edges": np.array([[0, 1]]), "x": np.eye(2)}
    np.savez(tmp_path / "g.npz", **arrays)
    assert find_config([str(tmp_path / "g.npz")], [], []).task.kind == "links"
    np.savez(tmp_path / "g.npz", y=np.array([0, 1]), **arrays)
    assert find_config([str(tmp_path / "g.npz")], [], []).task.kind == "nodes"


def test_a_complete_graph_has_nothing_to_tell_apart():
    every = np.argwhere(np.ones((4, 4)))
    graph = Graph(
        "g", 4, 1, edge_pairs(every, 4), np.zeros((2, 0), np.int64), np.zeros(0, np.float32), every[:4, 0], ()
    )
    with pytest.raises(DataError, match="all pairs of nodes"):
        LinkExamples(graph, graph, every, seed=1, stream=6)
    with pytest.raises(DataError, match="too few edges") as refused:
        split_edges(graph, LinksDataConfig(train=(), valid_share=0.01))
    assert refused.value.help is not None and "data.valid_share" in refused.value.help


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
