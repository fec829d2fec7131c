"""Scores of links between two nodes, from the outputs of a network for each node."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.graph.build import GraphNet
from regard.models.graph.layers import NodeFeatures


class LinkNet(nn.Module):
    """s(i, j) = z_i · z_j, or z_iᵀ W z_j with ``bilinear``, of the outputs z of ``net`` (Kipf & Welling 2016, Eq. 2).

    W starts as the identity. If edges are not ``directed``, (W + Wᵀ) / 2 replaces it: s(i, j) = s(j, i). The logit also
    has a bias, since few pairs of nodes have an edge.
    """

    def __init__(self, net: GraphNet, width: int, *, bilinear: bool, directed: bool = False) -> None:
        super().__init__()
        self.net, self.directed = net, directed
        self.weight = nn.Parameter(torch.eye(width)) if bilinear else None
        self.bias = nn.Parameter(torch.zeros(1))  # shape (1,) and not (), to shard it over ranks

    def forward(
        self,
        x: Float[Tensor, "nodes features"] | NodeFeatures,
        pairs: Int[Tensor, "2 edges"],
        degree: Float[Tensor, "edges"],
        ends: Int[Tensor, "2 candidates"],
    ) -> Float[Tensor, "candidates"]:
        """Return logits of an edge between the two ``ends`` of each candidate."""
        z = self.net(x, pairs, degree)
        one, other = z.index_select(0, ends[0]), z.index_select(0, ends[1])
        return (self._transformed(one) * other).sum(-1) + self.bias

    def against_all(self, z: Float[Tensor, "nodes width"], first: Int[Tensor, "some"]) -> Float[Tensor, "some nodes"]:
        """Return logits of an edge from each of some nodes to every node; ``z``: outputs of ``net``."""
        return self._transformed(z.index_select(0, first)) @ z.T + self.bias

    def _transformed(self, z: Tensor) -> Tensor:
        if self.weight is None:
            return z
        return z @ (self.weight if self.directed else (self.weight + self.weight.T) / 2)
