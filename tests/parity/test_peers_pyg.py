"""Layers over graphs beside those of PyTorch Geometric."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from regard.attention.mechanisms.gat import Gat
from regard.attention.mechanisms.gatv2 import Gatv2
from regard.models.graph.layers import GraphAttention, GraphConvolution, degree_weights, node_spans

from .peers.asking import Case, Pair, Peer, check, needs_peers, ways

NODES, FEATURES, HEADS, WIDTH = 9, 5, 3, 4
SIZES = dict(heads=HEADS, query_width=WIDTH, key_width=WIDTH)


def inputs() -> dict[str, Tensor]:
    """A graph in which two nodes have no edge; each edge in both directions."""
    edges = directed_inputs()["edges"]
    return {"x": torch.randn(NODES, FEATURES), "edges": torch.cat([edges, edges.flip(0)], 1)}


def directed_inputs() -> dict[str, Tensor]:
    """The same graph with each edge in one direction: nodes see another number of nodes than see them."""
    draw = torch.Generator().manual_seed(3)
    table = torch.rand(NODES, NODES, generator=draw).triu(1) > 0.6
    table[:, -2:] = False
    return {"x": torch.randn(NODES, FEATURES), "edges": table.nonzero().T.contiguous()}


def layer(ours: nn.Module, x: Tensor, edges: Tensor) -> dict[str, Tensor]:
    """There an edge leads from whom is seen to whoever sees."""
    own = torch.arange(NODES).expand(2, -1)
    pairs = torch.cat([edges.flip(0), own], 1)
    return {"output": ours(x, ours.bind(*node_spans(NODES, NODES, pairs)), degree_weights(pairs, NODES).to(x.dtype))}


def gat(name: str, mean: bool) -> Case:
    return Case(
        name=name,
        kind="GATConv",
        options=dict(in_channels=FEATURES, out_channels=WIDTH, heads=HEADS, concat=not mean),
        ours=lambda: GraphAttention(FEATURES, WIDTH, heads=HEADS, mechanism=Gat(**SIZES), projections=1, mean=mean),
        pairs=lambda ours: {
            "lin.weight": Pair(ours.project.weight, lambda weight: weight.T),
            "att_dst": Pair(ours.mechanism.query_vector, lambda vector: vector[None]),
            "att_src": Pair(ours.mechanism.key_vector, lambda vector: vector[None]),
            "bias": Pair(ours.bias),
        },
        inputs=inputs,
        run=layer,
    )


def gatv2() -> Case:
    """Without biases: PyG's are three, two of them before the score."""
    wide = HEADS * WIDTH
    return Case(
        name="GATv2Conv",
        kind="GATv2Conv",
        options=dict(in_channels=FEATURES, out_channels=WIDTH, heads=HEADS, bias=False),
        ours=lambda: GraphAttention(FEATURES, WIDTH, heads=HEADS, mechanism=Gatv2(**SIZES), projections=2),
        pairs=lambda ours: {
            "lin_r.weight": Pair(ours.project.weight, lambda weight: weight[:, :wide].T),
            "lin_l.weight": Pair(ours.project.weight, lambda weight: weight[:, wide:].T),
            "att": Pair(ours.mechanism.vector, lambda vector: vector[None]),
        },
        inputs=inputs,
        run=layer,
    )


def gcn() -> Case:
    return Case(
        name="GCNConv",
        kind="GCNConv",
        options=dict(in_channels=FEATURES, out_channels=WIDTH),
        ours=lambda: GraphConvolution(FEATURES, WIDTH),
        pairs=lambda ours: {
            "lin.weight": Pair(ours.project.weight, lambda weight: weight.T),
            "bias": Pair(ours.bias),
        },
        inputs=inputs,
        run=layer,
    )


def directed(case: Case) -> Case:
    return replace(case, name=f"{case.name}, directed", inputs=directed_inputs)


CASES = (gat("GATConv", False), gat("GATConv, mean of heads", True), gatv2(), gcn())
PEER = Peer("pyg", (*CASES, *map(directed, CASES)))


@needs_peers
@pytest.mark.parametrize("case, dtype, way", ways(PEER))
def test_beside_pyg(case, dtype, way):
    check(PEER, case, dtype, way)
