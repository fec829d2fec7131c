"""Graph isomorphism network layer: sums over neighbors, and a perceptron."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.edge_kernel import edge_layout, edge_sum
from regard.attention.mask import Bound, Edges
from regard.attention.span import EdgeList, Span
from regard.models.graph.layers import NodeFeatures, NodeLinear


class GraphIsomorphism(nn.Module):
    """h_i' = W₂ ReLU(W₁ ((1 + ε) h_i + Σ_j h_j) + b₁) + b₂ over the neighbors j ≠ i (Xu et al. 2019, Eq. 4.1).

    ε is learned from 0. A sum distinguishes the number of neighbors of each type, which a mean does not. No layer over
    neighbors distinguishes more than the colors of Weisfeiler & Leman (there, Lemma 2). W₁ is applied before the sum,
    with the same result. Differs from the paper in: no batch norm.
    """

    def __init__(self, inputs: int, outputs: int, *, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner, self.outer = NodeLinear(inputs, hidden, dropout=dropout), NodeLinear(hidden, outputs)
        self.inner_bias, self.bias = nn.Parameter(torch.zeros(hidden)), nn.Parameter(torch.zeros(outputs))
        self.own = nn.Parameter(torch.zeros(1))  # ε

    def bind(self, query: Span, key: Span) -> Bound:
        """Return the mask of the query nodes over the key nodes."""
        return Edges().bind(query, key)

    def forward(
        self, x: Float[Tensor, "nodes inputs"] | NodeFeatures, bound: Bound, degree: Tensor
    ) -> Float[Tensor, "queries outputs"]:
        """Return the outputs of the query nodes. ``degree`` is not used.

        Each node is one of its own neighbors, which is the 1 of 1 + ε.
        """
        projected = self.inner(x)
        assert isinstance(bound.query.edges, EdgeList)
        queries = bound.query.valid.shape[1]  # queries are the first of the keys
        layout = edge_layout(bound.query.edges.pairs, queries, len(projected))
        unit_weights = projected.new_ones(1, len(layout))
        hidden: Tensor = (
            edge_sum(unit_weights, projected[None], layout)[0] + self.own * projected[:queries] + self.inner_bias
        )
        mixed: Tensor = self.outer(hidden.relu())
        return mixed + self.bias
