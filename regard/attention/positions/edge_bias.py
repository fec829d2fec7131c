"""Bias of energies by the relation of two nodes in a graph: same node, neighbor, or neither."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.edge_kernel import EdgeValues, edge_layout
from regard.attention.mask import Bound
from regard.attention.positions.distance_bias import EnergyBias
from regard.attention.span import EdgeList
from regard.attention.structure import EdgesStructure

SELF, NEIGHBOR, OTHER = range(3)


class EdgeBias(EnergyBias):
    """b(i, j, h) = table[0, h] for i = j, table[1, h] where the graph has the edge (i, j), table[2, h] elsewhere.

    Graphormer's learned bias by the distance in the graph (Ying et al. 2021, §3.1.2), with one value for all distances
    above 1. ``table`` (3, heads) starts at 0. Under a mask of ``Edges`` only the first two occur, and the bias is one
    number per edge. Under a wider mask every node sees all nodes, and only the bias encodes the graph.

    Args:
        heads: number of heads, each with its own row of biases.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(3, heads))

    def forward(  # type: ignore[override]
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Float[Tensor, "1 heads query key"] | EdgeValues:
        queries, keys = bound.query.valid.shape[1], bound.key.valid.shape[1]
        edges = bound.query.edges
        if not isinstance(edges, EdgeList):
            raise ValueError("an edge bias requires Span.edges, which this span lacks")
        layout = edge_layout(edges.pairs, queries, keys)
        relation = torch.where(layout.query == layout.key, SELF, NEIGHBOR)
        table = self.table.to(query.dtype)
        if isinstance(bound.structure(), EdgesStructure):
            return EdgeValues(table.t().index_select(1, relation), layout)
        relations = torch.full((queries, keys), OTHER, device=relation.device)
        relations[layout.query, layout.key] = relation
        relations.fill_diagonal_(SELF)
        return table[relations].permute(2, 0, 1)[None]
