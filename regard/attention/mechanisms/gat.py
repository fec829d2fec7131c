"""Attention of graph attention networks (GAT): a rectified sum of a term of the query and a term of the key."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from regard.attention.kernel import share_heads
from regard.attention.pair_score import PairScore


def _glorot(heads: int, width: int) -> nn.Parameter:
    """Return a vector per head, uniform in ±√(6 / (width + 1)) (Glorot & Bengio 2010)."""
    limit = (6 / (width + 1)) ** 0.5
    return nn.Parameter(torch.empty(heads, width).uniform_(-limit, limit))


class Gat(PairScore):
    """e_ij = LeakyReLU(a_qᵀ q_i + a_kᵀ k_j), α = softmax(e) (Veličković et al. 2018, Eq. 1–3, with a = [a_q ‖ a_k]).

    ``query_vector`` a_q (heads, d_q) and ``key_vector`` a_k (heads, d_k). The energy is monotone in a_kᵀ k for every
    query: all queries that see the same keys rank them alike (Brody et al. 2022, Theorem 1), so a query cannot select a
    key. In a graph network queries, keys and values are one projection W h.

    No state. Cost per head: query·d_q + key·d_k once, then one addition per pair, or per edge. Equal to the paper; its
    product [Wh_i ‖ Wh_j] is never built.

    Args:
        heads: number of heads, each with its own parameters.
        query_width: d_q, features of a query per head.
        key_width: d_k, features of a key per head.
        slope: of the rectifier below 0.
    """

    def __init__(self, *, heads: int, query_width: int, key_width: int, slope: float = 0.2) -> None:
        super().__init__()
        self.query_vector, self.key_vector = _glorot(heads, query_width), _glorot(heads, key_width)
        self.slope = slope

    def prepare(self, key: Float[Tensor, "batch key_heads key key_width"]) -> Float[Tensor, "batch heads key 1"]:
        return torch.einsum("bhsd,hd->bhs", share_heads(key, len(self.key_vector)), self.key_vector)[..., None]

    def project(self, query: Float[Tensor, "batch heads query width"]) -> Float[Tensor, "batch heads query 1"]:
        return torch.einsum("bhtd,hd->bht", query, self.query_vector)[..., None]

    def pair(
        self, query: Float[Tensor, "batch heads *#pairs 1"], key: Float[Tensor, "batch heads *#pairs 1"]
    ) -> Float[Tensor, "batch heads *pairs"]:
        return leaky_relu((query + key)[..., 0], self.slope)
