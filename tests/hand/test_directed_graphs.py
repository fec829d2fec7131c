"""Layers, degrees and walks of directed graphs against dense matrices: row i of A marks the nodes that node i sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import leaky_relu

from regard.data.graph_union import return_probabilities
from regard.data.graphs import UNLABELED, Graph, edge_pairs
from regard.data.neighbors import Neighborhoods
from regard.models.graph.build import build_graph_net
from regard.models.graph.config import GraphNetConfig
from regard.models.graph.heads import GraphPooling
from regard.models.graph.layers import degree_weights
from regard.testing.law import same

WIDTH, HEADS, OUTPUTS = 3, 2, 4


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, np.ndarray]:
    """Number of nodes and directed edges (number, 2); some nodes see nobody, or are seen by nobody."""
    nodes = draw(st.integers(2, 8))
    ends = st.integers(0, nodes - 1)
    return nodes, np.array(draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=20)), np.int64)


def dense(nodes: int, edges: np.ndarray) -> Tensor:
    """A with ones for the edges and on the diagonal."""
    table = torch.eye(nodes, dtype=torch.float64)
    table[edges[:, 0], edges[:, 1]] = 1
    return table


def test_degrees_by_pencil() -> None:
    """0 sees 1 and 2, 1 sees 2: with themselves 3, 2 and 1 nodes, however many see them."""
    pairs = edge_pairs(np.array([[0, 1], [0, 2], [1, 2]]), 3, directed=True)
    assert pairs.T.tolist() == [[0, 0], [0, 1], [0, 2], [1, 1], [1, 2], [2, 2]]
    expected = [1 / 3, 6**-0.5, 3**-0.5, 1 / 2, 2**-0.5, 1]
    torch.testing.assert_close(degree_weights(torch.from_numpy(pairs), 3), torch.tensor(expected).double())
    np.testing.assert_allclose(graph_of(3, pairs).degree, expected, rtol=1e-6)


def graph_of(nodes: int, pairs: np.ndarray) -> Graph:
    empty = np.zeros((2, 0), np.int64)
    return Graph("g", nodes, 1, pairs, empty, np.zeros(0, np.float32), np.full(nodes, UNLABELED), ())


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_weights_by_degree_are_those_of_the_matrix(drawn: tuple[int, np.ndarray]) -> None:
    """D^−½ A D^−½ with D the sums of the rows; also over neighborhoods."""
    nodes, edges = drawn
    pairs, table = edge_pairs(edges, nodes, directed=True), dense(nodes, edges)
    root = table.sum(1).rsqrt()
    expected = (root[:, None] * table * root)[pairs[0], pairs[1]]
    same(degree_weights(torch.from_numpy(pairs), nodes), expected, "degree_weights")
    graph = graph_of(nodes, pairs)
    np.testing.assert_allclose(graph.degree, expected, rtol=1e-6)
    (hop,) = Neighborhoods(graph).of(np.arange(nodes), [None]).hops
    np.testing.assert_array_equal(hop.pairs, pairs)
    np.testing.assert_array_equal(hop.degree, graph.degree)


def softmax_over(energy: Tensor, table: Tensor) -> Tensor:
    return energy.masked_fill(table == 0, -torch.inf).softmax(-1)


def gcn(layer: Any, x: Tensor, table: Tensor) -> Tensor:
    root = table.sum(1).rsqrt()
    return (root[:, None] * table * root) @ x @ layer.project.weight + layer.bias


def gin(layer: Any, x: Tensor, table: Tensor) -> Tensor:
    others = (table - torch.eye(len(x))) @ x
    inner = ((1 + layer.own) * x + others) @ layer.inner.weight + layer.inner_bias
    return inner.relu() @ layer.outer.weight + layer.bias


def by_head(parts: Tensor) -> Tensor:
    return parts.unflatten(-1, (HEADS, OUTPUTS)).transpose(0, 1)


def gat(layer: Any, x: Tensor, table: Tensor) -> Tensor:
    z = by_head(x @ layer.project.weight)
    one, other = (
        (z * vector[:, None]).sum(-1) for vector in (layer.mechanism.query_vector, layer.mechanism.key_vector)
    )
    energy = leaky_relu(one[:, :, None] + other[:, None], 0.2)
    return (softmax_over(energy, table) @ z).mean(0) + layer.bias


def gatv2(layer: Any, x: Tensor, table: Tensor) -> Tensor:
    query, key = (by_head(part) for part in (x @ layer.project.weight).chunk(2, -1))
    pair = leaky_relu(query[:, :, None] + key[:, None], 0.2)
    energy = (pair * layer.mechanism.vector[:, None, None]).sum(-1)
    return (softmax_over(energy, table) @ key).mean(0) + layer.bias


def transformer(layer: Any, x: Tensor, table: Tensor) -> Tensor:
    query, key, value = (by_head(part) for part in (x @ layer.project.weight).chunk(3, -1))
    own, neighbor, _ = layer.mechanism.bias.table
    bias = torch.where(torch.eye(len(x)) > 0, own[:, None, None], neighbor[:, None, None])
    energy = query @ key.transpose(1, 2) / OUTPUTS**0.5 + bias
    return (softmax_over(energy, table) @ value).mean(0) + layer.bias


LAYERS: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "gcn": gcn, "gin": gin, "gat": gat, "gatv2": gatv2, "transformer": transformer,
}  # fmt: skip


@pytest.mark.parametrize("kind", LAYERS)
@settings(max_examples=25, deadline=None)
@given(drawn=graphs(), seed=st.integers(0, 1000))
def test_layers_are_products_of_matrices(kind: str, drawn: tuple[int, np.ndarray], seed: int) -> None:
    nodes, edges = drawn
    torch.manual_seed(seed)
    config = GraphNetConfig.model_validate({"kind": kind, "layers": 1, "heads": HEADS, "output_heads": HEADS})
    net = build_graph_net(config, features=WIDTH, outputs=OUTPUTS).double().eval()
    for weight in net.parameters():
        torch.nn.init.normal_(weight)
    x, pairs = torch.randn(nodes, WIDTH).double(), torch.from_numpy(edge_pairs(edges, nodes, directed=True))
    found = net(x, pairs, degree_weights(pairs, nodes))
    same(found, LAYERS[kind](net.layers[0], x, dense(nodes, edges)), kind, tolerance=1e-9)


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_walks_return_as_powers_of_the_matrix_have_it(drawn: tuple[int, np.ndarray]) -> None:
    nodes, edges = drawn
    table = dense(nodes, edges) - torch.eye(nodes)
    step = table / table.sum(1, keepdim=True).clamp_min(1)
    expected = torch.stack([torch.linalg.matrix_power(step, k).diagonal() for k in (2, 3, 4)], 1)
    found = return_probabilities(edge_pairs(edges, nodes, directed=True), nodes, 4)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["mean", "sum", "max", "attention"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_weights_of_pooling_share_ties_and_sum_to_one(kind: Any, data: st.DataObject) -> None:
    """Equal nodes of a graph weigh the same, and the nodes of a graph 1 in all, but n under a sum."""
    counts = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    numbers = st.lists(st.sampled_from([-1.0, 0.0, 2.0]), min_size=2, max_size=2)
    z = torch.tensor(data.draw(st.lists(numbers, min_size=sum(counts), max_size=sum(counts)))).double()
    torch.manual_seed(1)
    pooling = GraphPooling(kind, 2, hidden=3).double()
    weights = pooling.pool(z, torch.tensor(counts))[1].split(counts)
    for nodes, weight in zip(z.split(counts), weights, strict=True):
        total = torch.tensor(float(len(nodes)) if kind == "sum" else 1.0).double()
        same(weight.sum(), total, "the weights of a graph", tolerance=1e-9)
        for one in range(len(nodes)):
            for other in range(one):
                if torch.equal(nodes[one], nodes[other]):
                    same(weight[one], weight[other], "weights of equal nodes", tolerance=1e-9)
