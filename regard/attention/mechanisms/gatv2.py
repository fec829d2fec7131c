"""Dynamic attention of graph attention networks (GATv2): the rectifier comes before the vector."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from regard.attention.pair_score import PairScore


class Gatv2(PairScore):
    """e_ij = aᵀ LeakyReLU(q_i + k_j), α = softmax(e) (Brody et al. 2022, Eq. 7, with q_i = W_q h_i, k_j = W_k h_j).

    ``vector`` a (heads, width), uniform in ±√(6 / (width + 1)). As wide as the projections of the heads, which are W =
    [W_q ‖ W_k]. Unlike in ``gat``, the ranking of keys depends on the query: a network of this form approximates any
    score.

    No state. Cost per head: width additions and multiply-adds per pair, or per edge, and as much memory. Equal to the
    paper.

    Args:
        heads: number of heads, each with its own parameters.
        query_width: features of a query per head.
        key_width: features of a key per head, equal to ``query_width``.
        slope: of the rectifier below 0.
    """

    same_width = True

    def __init__(self, *, heads: int, query_width: int, key_width: int, slope: float = 0.2) -> None:
        super().__init__()
        if query_width != key_width:
            raise ValueError(
                f"a query of {query_width} features cannot be added to a key of {key_width}: use equal widths"
            )
        limit = (6 / (query_width + 1)) ** 0.5
        self.vector = nn.Parameter(torch.empty(heads, query_width).uniform_(-limit, limit))
        self.slope = slope

    def pair(
        self, query: Float[Tensor, "batch heads *#pairs width"], key: Float[Tensor, "batch heads *#pairs width"]
    ) -> Float[Tensor, "batch heads *pairs"]:
        rectified = leaky_relu(query + key, self.slope)
        return torch.einsum("bh...n,hn->bh...", rectified, self.vector)
