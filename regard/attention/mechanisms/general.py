"""Luong's general score: a bilinear form."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.mask import Bound
from regard.attention.score import ScoreTerms, SoftmaxScore


class General(SoftmaxScore):
    """e_ij = q_iᵀ W_a k_j, α = softmax(e), without bias or scale (Luong et al. 2015, §3.1, "general").

    W_a ``weight`` (heads, query_width, key_width), one matrix per head, so d_q may differ from d_k. No state.
    Cost: query·d_q·d_k + query·key·d_k per head.

    Args:
        heads: number of heads, each with its own parameters.
        query_width: d_q, features of a query per head.
        key_width: d_k, features of a key per head.
    """

    def __init__(self, *, heads: int, query_width: int, key_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, query_width, key_width))
        nn.init.uniform_(self.weight, -0.1, 0.1)  # as the paper initializes every parameter

    def energy(
        self, query: Float[Tensor, "batch heads query width"], key: Float[Tensor, "batch heads key key_width"]
    ) -> Float[Tensor, "batch heads query key"]:
        return torch.einsum("bhtd,hde,bhse->bhts", query, self.weight, key)

    def terms(
        self, query: Float[Tensor, "heads query width"], key: Float[Tensor, "heads key prepared"], bound: Bound
    ) -> ScoreTerms | None:
        return ScoreTerms("product", "qᵀ W · k", 1.0, torch.einsum("htd,hde->hte", query, self.weight), key)
