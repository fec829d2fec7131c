"""Attention over edges: by edges it is what it is by table, with gradients; memory goes with edges."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor

from regard.attention.contract import Mechanism
from regard.attention.edge_kernel import (
    EdgeLayout,
    EdgeValues,
    edge_dot,
    edge_gather,
    edge_layout,
    edge_softmax,
    edge_sum,
    edge_weights,
)  # fmt: skip
from regard.attention.kernel import choose, kernel, masked_softmax
from regard.attention.mask import Bound, Edges, Mask, Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.mechanisms.gat import Gat
from regard.attention.mechanisms.gatv2 import Gatv2
from regard.attention.positions.edge_bias import EdgeBias
from regard.attention.span import EdgeList, Span
from regard.attention.structure import EdgesStructure
from regard.models.dropout import Dropout
from regard.testing.law import same

NODES, HEADS, WIDTH = 7, 3, 4
SIZES = dict(heads=HEADS, query_width=WIDTH, key_width=WIDTH)


def graph(seed: int = 0) -> tuple[Tensor, Tensor]:
    """A table of who sees whom, in which node 3 sees nobody, and its pairs in disorder, some of them twice."""
    draw = torch.Generator().manual_seed(seed)
    table = torch.rand(NODES, NODES, generator=draw) < 0.4
    table[3] = False
    pairs = table.nonzero().T
    pairs = pairs[:, torch.randperm(pairs.shape[1], generator=draw)]
    return table, torch.cat([pairs, pairs[:, :2]], 1)


def bound_of(pairs: Tensor, mask: Mask | None = None, valid: Tensor | None = None, rows: int = 2) -> Bound:
    columns = torch.ones(rows, NODES, dtype=torch.bool) if valid is None else valid
    span = Span.of(columns)._replace(edges=EdgeList(pairs))
    return (mask or Edges()).bind(span, span)


def inputs(rows: int = 2, seed: int = 1) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    shape = (rows, HEADS, NODES, WIDTH)
    return [torch.randn(shape, dtype=torch.float64, generator=draw, requires_grad=True) for _ in range(3)]


def biased() -> Mechanism:
    found = Dot(bias=EdgeBias(HEADS))
    torch.nn.init.normal_(found.bias.table)
    return found


MECHANISMS = {
    "gat": lambda: Gat(**SIZES), "gatv2": lambda: Gatv2(**SIZES), "dot": Dot, "dot with a bias": biased,
}  # fmt: skip


def test_the_edges_are_sorted_once_and_each_is_one():
    table, pairs = graph()
    layout = edge_layout(pairs, NODES, NODES)
    assert edge_layout(pairs, NODES, NODES) is layout
    assert torch.equal(torch.stack([layout.query, layout.key]), table.nonzero().T)
    assert torch.equal(pairs[:, layout.source], table.nonzero().T)
    with pytest.raises(ValueError, match="out of range"):
        EdgeLayout(torch.tensor([[0], [NODES]]), NODES, NODES)


def test_a_layout_goes_with_its_pairs_and_waits_for_no_collection():
    """A task of many graphs lays out edges in every batch."""
    _, pairs = graph()
    layout = weakref.ref(edge_layout(pairs, NODES, NODES))
    gc.disable()
    try:
        assert edge_layout(pairs, NODES, NODES).stacked(2) is edge_layout(pairs, NODES, NODES).stacked(2)
        del pairs
        assert layout() is None
    finally:
        gc.enable()


def test_sums_products_and_ends_are_those_of_a_table():
    table, pairs = graph()
    layout = edge_layout(pairs, NODES, NODES)
    query, key, value = (x[0] for x in inputs())
    i, j = table.nonzero().T
    found = edge_dot(query, key, layout)
    same(found, (query @ key.mT)[:, i, j], "products", tolerance=1e-12)
    same(edge_gather(query, layout, 0), query[:, i], "queries of edges", tolerance=0)
    same(edge_gather(key, layout, 1), key[:, j], "keys of edges", tolerance=0)
    weights = torch.zeros(HEADS, NODES, NODES, dtype=torch.float64).index_put(
        (torch.arange(HEADS)[:, None], i, j), found
    )
    same(EdgeValues(found, layout).table()[0], weights, "a table of edges", tolerance=0)
    same(edge_sum(found, value, layout), weights @ value, "sums", tolerance=1e-12)
    same(edge_softmax(found, layout), masked_softmax(query @ key.mT, table)[:, i, j], "weights", tolerance=1e-12)


@pytest.mark.parametrize("of", [edge_dot, edge_sum, edge_softmax, edge_gather])
def test_gradients_are_those_of_finite_differences(of):
    _, pairs = graph()
    layout = edge_layout(pairs, NODES, NODES)
    query, key, value = (x[0] for x in inputs())
    energy = edge_dot(query, key, layout).detach().requires_grad_()
    function, given = {
        edge_dot: (lambda a, b: edge_dot(a, b, layout), (query, key)),
        edge_sum: (lambda a, b: edge_sum(a, b, layout), (energy, value)),
        edge_softmax: (lambda a: edge_softmax(a, layout), (energy,)),
        edge_gather: (lambda a: torch.cat([edge_gather(a, layout, 0), edge_gather(a, layout, 1)]), (query,)),
    }[of]
    given = tuple(each.detach().requires_grad_() for each in given)
    assert torch.autograd.gradcheck(function, given)


@pytest.mark.parametrize("name", MECHANISMS)
def test_by_edges_it_is_what_it_is_by_table_with_gradients(name):
    torch.manual_seed(2)
    mechanism = MECHANISMS[name]().double()
    _, pairs = graph()
    given = inputs()
    leaves = [*given, *mechanism.parameters()]
    slope = torch.randn(2, HEADS, NODES, WIDTH, dtype=torch.float64)
    found = []
    for path in ("edges", "reference"):
        query, key, value = given
        with kernel(path):
            context = mechanism(query, mechanism.prepare(key), value, bound_of(pairs)).context
        found.append((context, *torch.autograd.grad(context, leaves, slope, allow_unused=True)))
    for one, other in zip(*found, strict=True):
        same(one, torch.zeros_like(one) if other is None else other, name, tolerance=1e-10)
    assert not found[0][0][:, :, 3].any() and not found[0][1][:, :, 3].any(), "node 3 sees nobody"


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_table_is_made_unless_weights_are_asked_for(name, monkeypatch):
    mechanism, (_, pairs) = MECHANISMS[name]().double(), graph()
    query, key, value = inputs()
    with monkeypatch.context() as patch:
        patch.setattr(Bound, "narrow", lambda self: pytest.fail("a table was made"))
        context = mechanism(query, mechanism.prepare(key), value, bound_of(pairs)).context
    attended = mechanism(query, mechanism.prepare(key), value, bound_of(pairs), need_weights=True)
    same(attended.context, context, name, tolerance=1e-10)
    same(torch.einsum("bhts,bhsv->bhtv", attended.weights, value), context, name, tolerance=1e-10)


@pytest.mark.parametrize("name", MECHANISMS)
def test_padding_beside_edges_hides_keys(name):
    """An edge to padding is none: then the table is made."""
    torch.manual_seed(2)
    mechanism, (_, pairs) = MECHANISMS[name]().double(), graph()
    valid = torch.ones(2, NODES, dtype=torch.bool)
    valid[1, 5:] = False
    query, key, value = inputs()
    context = mechanism(query, mechanism.prepare(key), value, bound_of(pairs, Padding() & Edges(), valid)).context
    seen = pairs[:, pairs[1] < 5]
    expected = mechanism(query, mechanism.prepare(key), value, bound_of(seen)).context
    same(context[1, :, :5], expected[1, :, :5], name, tolerance=1e-10)


@torch.no_grad()
def test_dropped_weights_are_those_before_values_are_read():
    """Every weight 0 or 256/128 of itself; the mean of many draws is the weight."""
    mechanism, (_, pairs) = Gatv2(**SIZES).double(), graph()
    mechanism.drop_weights(Dropout(0.5))
    query, key, _ = inputs()
    layout = edge_layout(pairs, NODES, NODES)
    identity = torch.eye(NODES, dtype=torch.float64).expand(2, HEADS, NODES, NODES)
    weights = edge_weights(mechanism.pair, query, key, layout).unflatten(0, (2, HEADS))
    draws = [mechanism(query, key, identity, bound_of(pairs)).context for _ in range(400)]
    one = draws[0][:, :, layout.query, layout.key]
    assert torch.logical_or(one == 0, (one - 2 * weights).abs() < 1e-12).all() and (one == 0).any()
    mean = torch.stack(draws).mean(0)[:, :, layout.query, layout.key]
    assert float((mean - weights).abs().max()) < 0.25 and float((mean - weights).mean().abs()) < 0.01


def test_an_edge_taken_out_takes_its_gradient():
    _, pairs = graph()
    mechanism = Gatv2(**SIZES).double()
    i, j = pairs[:, 0].tolist()
    kept = pairs[:, ~((pairs[0] == i) & (pairs[1] == j))]
    for edges, reaches in ((pairs, True), (kept, False)):
        query, key, value = inputs()
        context = mechanism(query, key, value, bound_of(edges)).context
        (slope,) = torch.autograd.grad(context[0, :, i].square().sum(), value)
        assert bool(slope[0, :, j].any()) is reaches


def test_a_complete_graph_is_dense_attention():
    every = torch.cartesian_prod(torch.arange(NODES), torch.arange(NODES)).T
    query, key, value = inputs()
    plain = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    same(Dot()(query, key, value, bound_of(every)).context, plain, "a complete graph", tolerance=1e-12)


def test_a_bias_without_a_mask_tells_the_graph():
    """Far below 0 for strangers, the bias is the mask."""
    bias, (_, pairs) = EdgeBias(HEADS), graph()
    looped = torch.cat([pairs, torch.arange(NODES).expand(2, -1)], 1)
    with torch.no_grad():
        bias.table[2] = -1e4
    query, key, value = inputs()
    dense = Dot(bias=bias)(query, key, value, bound_of(looped, Padding())).context
    same(dense, Dot()(query, key, value, bound_of(looped)).context, "a bias as a mask", tolerance=1e-10)


def test_memory_goes_with_edges():
    """A ring of 100,000 nodes: a table would have 10 billion numbers."""
    nodes = 100_000
    ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    span = Span.of(torch.ones(1, nodes, dtype=torch.bool))._replace(edges=EdgeList(ring))
    x = torch.randn(1, 1, nodes, 2, requires_grad=True)
    mechanism = Gat(heads=1, query_width=2, key_width=2)
    context = mechanism(x, mechanism.prepare(x), x, Edges().bind(span, span)).context
    assert torch.equal(context[0, 0], x[0, 0].roll(-1, 0))
    context.sum().backward()
    assert x.grad is not None


def test_choosing_edges():
    edges = EdgesStructure(graph()[1])
    asked = dict(need_weights=False, device="cpu", gradient=True, keys=8, structure=edges)
    assert choose(**asked) == choose(**asked, dropping=True) == "edges"
    assert choose(**asked | {"need_weights": True}) == choose(**asked, forced="reference") == "reference"
    assert choose(**asked | {"structure": None}, forced="edges") == "sdpa"
