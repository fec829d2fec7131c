"""Whole graphs: pooling with a pencil, a batch that is each graph alone, and what no layer can tell apart."""

from __future__ import annotations

import hashlib
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.core.field import VisitDraws
from regard.data import graph_union
from regard.data.graph_lines import GraphLine, graph_of, read_graph_lines
from regard.data.graph_union import disjoint_union, packed_graphs, return_probabilities
from regard.data.graphs import edge_pairs
from regard.data.order import packed_runs
from regard.fields.graphs import Graphs
from regard.fields.node_features import NodeCodec
from regard.models.graph.build import build_graph_net
from regard.models.graph.heads import GraphPooling, PooledGraphNet
from regard.models.graph.layers import GraphIsomorphism, node_spans
from regard.tasks.graphs.config import GraphsConfig, GraphsModelConfig
from regard.tasks.graphs.task import GRAPHS, TASK
from regard.tasks.supervised_examples import SupervisedExamples
from regard.testing.codec_case import CodecRun
from regard.testing.law import same

KINDS, POOLINGS = ["gat", "gatv2", "gcn", "gin", "transformer"], ["mean", "sum", "max", "attention"]
STATES = torch.tensor([[1.0, 4.0], [3.0, 0.0], [5.0, -2.0]], dtype=torch.float64)  # a graph of two nodes, and of one
COUNTS = torch.tensor([2, 1])


def field(codec: NodeCodec | None = None, **options: Any) -> Graphs:
    made = Graphs((1,), **options)
    made.codec = codec or NodeCodec((), ())
    return made


def net(kind: str, pooling: str, features: int) -> PooledGraphNet:
    torch.manual_seed(1)
    model = GraphsModelConfig(kind=kind, width=4, heads=2, layers=2)
    made = build_graph_net(model, features=features, outputs=model.hidden)
    pool = GraphPooling(pooling, 2 * model.hidden, hidden=model.hidden)  # type: ignore[arg-type]
    return PooledGraphNet(made, pool, width=model.hidden, outputs=3, dropout=0.0).double().eval()


def ran(made: PooledGraphNet, reader: Graphs, lines: list[GraphLine]) -> Tensor:
    found: Tensor = made(reader.pad(reader.encode(lines).rows)).logits
    return found.detach()


def ring(*sizes: int) -> GraphLine:
    edges, start = [], 0
    for size in sizes:
        edges += [[start + node, start + (node + 1) % size] for node in range(size)]
        start += size
    return graph_of({"edges": edges})


def star(nodes: int) -> GraphLine:
    return graph_of({"edges": [[0, node] for node in range(1, nodes)], "nodes": nodes})


@pytest.mark.parametrize(
    ("kind", "pooled", "weights"),
    [
        ("sum", [[4.0, 4.0], [5.0, -2.0]], [1.0, 1.0, 1.0]),
        ("mean", [[2.0, 2.0], [5.0, -2.0]], [0.5, 0.5, 1.0]),
        ("max", [[3.0, 4.0], [5.0, -2.0]], [0.5, 0.5, 1.0]),
    ],
)
def test_pooling_with_a_pencil(kind: Any, pooled: list[list[float]], weights: list[float]) -> None:
    pooling = GraphPooling(kind, 2, hidden=2)
    vectors, shares = pooling.pool(STATES, COUNTS)
    assert vectors.tolist() == pooling(STATES, COUNTS).tolist() == pooled and shares.tolist() == weights


def test_attention_with_a_pencil() -> None:
    """Scores ln 3 · tanh(z₁ − 2), in the first graph ∓ ln 3 · tanh 1: softmax of the two, and 1 for one alone."""
    pooling = GraphPooling("attention", 2, hidden=1).double()
    assert pooling.hidden is not None and pooling.score is not None
    with torch.no_grad():
        pooling.hidden.weight.copy_(torch.tensor([[1.0, 0.0]]))
        pooling.hidden.bias.fill_(-2.0)
        pooling.score.fill_(np.log(3) / np.tanh(1))
    same(pooling.pool(STATES, COUNTS)[1], torch.tensor([0.1, 0.9, 1.0], dtype=torch.float64), "weights")
    same(pooling(STATES, COUNTS), torch.tensor([[2.8, 0.4], [5.0, -2.0]], dtype=torch.float64), "pooled")


@pytest.mark.parametrize("kind", POOLINGS)
def test_gradients_of_pooling_are_finite_differences(kind: Any) -> None:
    pooling = GraphPooling(kind, 2, hidden=3).double()
    assert torch.autograd.gradcheck(lambda z: pooling(z, COUNTS), STATES.clone().requires_grad_())


def test_a_layer_of_sums_with_a_pencil() -> None:
    """Star of three: W₁ = W₂ = 1, no biases, ε = 1/2: the center 1.5 · 1 + 2 + 3, a leaf 1.5 · 2 + 1."""
    layer = GraphIsomorphism(1, 1, hidden=1)
    with torch.no_grad():
        layer.inner.weight.fill_(1.0)
        layer.outer.weight.fill_(1.0)
        layer.own.fill_(0.5)
    pairs = torch.from_numpy(edge_pairs(np.array([[0, 1], [0, 2]]), 3))
    found = layer(torch.tensor([[1.0], [2.0], [3.0]]), layer.bind(*node_spans(3, 3, pairs)), torch.empty(0))
    assert found[:, 0].tolist() == [6.5, 4.0, 5.5]


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_each_graph_alone_and_numbers_of_nodes_say_nothing(kind: str, pooling: str) -> None:
    reader = field(degrees=4, walks=4)
    lines = [ring(5), star(4), graph_of({"edges": [], "nodes": 1}), graph_of({"edges": [[0, 1]], "nodes": 3})]
    made = net(kind, pooling, reader.sizes["features"])
    together = ran(made, reader, lines)
    same(together, torch.cat([ran(made, reader, [line]) for line in lines]), "each alone")
    order = np.array([2, 0, 3, 1])
    renumbered = replace(lines[1], edges=order[lines[1].edges])
    same(ran(made, reader, [renumbered])[0], together[1], "nodes in another order")
    assert float((together[0] - together[1]).abs().max()) > 1e-3, "a ring and a star have the same answer"


def test_states_of_all_layers_stand_side_by_side() -> None:
    reader = field(degrees=4)
    made = net("gatv2", "mean", reader.sizes["features"])
    inputs = reader.pad(reader.encode([star(4)]).rows)
    first, last = made.net.states(*made.arguments(inputs))
    same(made.node_states(inputs), torch.cat([first, torch.nn.functional.elu(last)], -1), "states")


def test_gradients_of_graphs_do_not_meet() -> None:
    reader = field(degrees=4)
    made = net("gatv2", "attention", reader.sizes["features"])
    inputs = reader.pad(reader.encode([ring(4), star(5)]).rows)
    values = inputs.values.double().requires_grad_()
    (slope,) = torch.autograd.grad(made(inputs._replace(values=values)).logits[0].sum(), values)
    first = inputs.entries[0] < 4
    assert bool((slope[first] != 0).any()) and not bool((slope[~first] != 0).any())


@pytest.mark.parametrize("kind", KINDS)
def test_one_ring_and_two_are_alike_to_every_layer_until_walks_or_noise_tell(kind: str) -> None:
    """Weisfeiler & Leman color a ring of six as two triangles: nothing that goes by neighbors tells them apart."""
    lines = [ring(6), ring(3, 3)]
    for pooling in POOLINGS:
        alike = ran(net(kind, pooling, field().sizes["features"]), field(), lines)
        same(alike[0], alike[1], f"{kind}, {pooling}", tolerance=1e-12)
    walked = field(walks=3)
    told = ran(net(kind, "mean", walked.sizes["features"]), walked, lines)
    assert float((told[0] - told[1]).abs().max()) > 1e-4
    noisy = field(noise=2)
    told = ran(net(kind, "mean", noisy.sizes["features"]), noisy, lines)
    assert float((told[0] - told[1]).abs().max()) > 1e-4


def test_walks_come_back_as_counted_by_hand() -> None:
    """Triangle: 1/2 after two steps, 1/4 after three. Path of three: 1/2 at its ends, 1 in its middle; never after
    three. A node without edges never."""
    triangle, path = ring(3), graph_of({"edges": [[0, 1], [1, 2]], "nodes": 4})
    found = return_probabilities(edge_pairs(triangle.edges, 3), 3, 3)
    assert found.tolist() == [[0.5, 0.25]] * 3
    assert return_probabilities(edge_pairs(path.edges, 4), 4, 3).tolist() == [[0.5, 0], [1, 0], [0.5, 0], [0, 0]]
    assert return_probabilities(edge_pairs(path.edges, 4), 4, 0).shape == (4, 0)


def test_a_small_graph_has_the_probabilities_of_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(1)
    for nodes in (2, 7, 40):
        table = draws.random((nodes, nodes)) < 0.3
        pairs = np.stack(np.nonzero(table | table.T))
        dense = return_probabilities(pairs, nodes, 9)
        with monkeypatch.context() as patch:
            patch.setattr(graph_union, "SMALL", 0)
            np.testing.assert_allclose(return_probabilities(pairs, nodes, 9), dense, rtol=1e-6)


def test_walks_are_powers_of_a_matrix_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever columns are followed together; of 300 nodes and 60,000 edges no table of edges × nodes is made."""
    edges = np.random.default_rng(1).integers(0, 9, (14, 2))
    pairs = edge_pairs(edges, 11)
    query, key = pairs[:, pairs[0] != pairs[1]]
    steps = np.zeros((11, 11))
    steps[query, key] = 1 / np.bincount(query, minlength=11)[query]
    powers = [np.linalg.matrix_power(steps, k).diagonal() for k in (2, 3, 4, 5)]
    for together in (1 << 20, 40, 1):
        monkeypatch.setattr("regard.data.graph_union.TOGETHER", together)
        np.testing.assert_allclose(return_probabilities(pairs, 11, 5), np.stack(powers, 1), atol=1e-7)
    monkeypatch.setattr("regard.data.graph_union.TOGETHER", 1 << 12)
    dense = edge_pairs(np.argwhere(np.random.default_rng(2).random((300, 300)) < 0.5), 300)
    tracemalloc.start()
    return_probabilities(dense, 300, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * dense.nbytes


def test_features_stand_in_their_columns() -> None:
    """1, own features by their scale, labels, degrees, walks; a label that training had not is none."""
    reader = field(NodeCodec((2.0,), ("C", "O")), degrees=2, walks=2)
    line = graph_of(
        {"edges": [[0, 1], [1, 2], [1, 3]], "nodes": ["C", "O", "N", "C"], "features": [[2], [0], [4], [1]]}
    )
    graph = reader.encode([line]).rows[0].graph
    table = np.zeros((4, reader.sizes["features"]))
    table[graph.entries[0], graph.entries[1]] = graph.values
    third = np.float32(1 / 3)
    assert table.tolist() == [
        [1, 1.0, 1, 0, 0, 1, 0, third],
        [1, 0.0, 0, 1, 0, 0, 1, 1],
        [1, 2.0, 0, 0, 0, 1, 0, third],
        [1, 0.5, 1, 0, 0, 1, 0, third],
    ]


def test_an_edge_with_a_direction_lets_its_first_node_see_its_second() -> None:
    line = graph_of({"edges": [[0, 1], [2, 1]]})
    directed, plain = (reader.encode([line]).rows[0].graph for reader in (field(directed=True), field()))
    assert directed.pairs.T.tolist() == [[0, 0], [0, 1], [1, 1], [2, 1], [2, 2]]
    assert plain.pairs.shape == (2, 7)


def test_noise_is_of_the_visit_in_training_and_of_the_graph_elsewhere() -> None:
    reader = field(noise=3)
    row, alike, another = reader.encode([ring(4), ring(4), ring(5)]).rows
    first, again, other = (
        reader.augment([each], VisitDraws(0, 0, visit)).graph for each, visit in ((row, 1), (alike, 1), (row, 2))
    )
    assert np.array_equal(first.values, again.values) and not np.array_equal(first.values, other.values)
    assert (np.diff(first.entries[0] * first.features + first.entries[1]) > 0).all(), "entries are not in order"
    assert len(first.values) == len(row.graph.values) == 4 + 12, "noise is added to that of another visit"
    assert np.array_equal(row.graph.values, alike.graph.values)
    assert not np.array_equal(row.graph.values, another.graph.values[:16])
    plain = field().encode([ring(4)]).rows[0]
    assert field().augment([plain], VisitDraws(0, 0, 1)) is plain


def test_a_union_is_its_parts_beside_each_other() -> None:
    reader = field(degrees=2)
    rows = reader.encode([ring(3), graph_of({"edges": [], "nodes": 2}), star(3)]).rows
    parts = [row.graph for row in rows]
    whole, packed = disjoint_union(parts), packed_graphs(parts)
    assert packed.counts.tolist() == [3, 2, 3] and packed.pairs.tolist() == whole.pairs.tolist()
    assert [part.tolist() for part in packed.by_row(torch.arange(8))] == [[0, 1, 2], [3, 4], [5, 6, 7]]
    joined = np.concatenate([ring(3).edges, star(3).edges + 5])
    assert np.array_equal(whole.pairs, edge_pairs(joined, 8))
    assert np.array_equal(whole.degree, np.concatenate([part.degree for part in parts]))
    assert whole.isolated.tolist() == [3, 4]


def examples(tmp_path: Path) -> SupervisedExamples:
    """The examples of the sample in batches of twenty nodes."""
    sample = TASK.sample(tmp_path)
    config = GraphsConfig.model_validate({**sample, "task": "graphs", "train": {"batch_tokens": 20}})
    run = CodecRun(tmp_path / "run", config)
    return SupervisedExamples(GRAPHS.read(config, "train"), config, GRAPHS.learn_codecs(run, lambda message: None))


def test_an_epoch_has_an_order_of_its_own(tmp_path: Path) -> None:
    made = examples(tmp_path)
    first, again, second = (np.concatenate([part.index for part in made.batches(epoch)]) for epoch in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, second)
    assert sorted(first) == sorted(second) == list(range(12))


def test_contents_are_those_that_older_runs_recorded(tmp_path: Path) -> None:
    """Digests of the graphs, a line each, and the classes: a run from before continues with the same examples."""
    made = examples(tmp_path)
    digests = "\n".join(graph.digest() for graph in read_graph_lines(made._config.data.train, "label"))
    classes = np.array([0, 1] * 6, np.int64)
    assert made.digest() == hashlib.sha256(digests.encode() + classes.tobytes()).hexdigest()
    assert made.report("graph") == "12 graphs of 3 to 8 nodes, 60 edges"


def test_batches_are_cut_where_they_are_full() -> None:
    sizes = np.array([3, 3, 9, 1, 4, 4])
    found = packed_runs(np.array([5, 2, 0, 1, 3, 4]), sizes, 8)
    assert [part.tolist() for part in found] == [[5], [2], [0, 1, 3], [4]]
    assert packed_runs(np.arange(0), sizes[:0], 8) == []
