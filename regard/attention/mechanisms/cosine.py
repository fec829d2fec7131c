"""Cosine attention (query-key normalization): the cosine of query and key, times a learned sharpness."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.contract import Abilities, Attended
from regard.attention.kernel import attend, zero_masked
from regard.attention.mask import Bound
from regard.attention.score import Score, ScoreTerms
from regard.core.state import State

TINY = 1e-12  # keeps the result and the gradient finite for a query or key of norm 0


class Cosine(Score):
    """e_ij = g · q_i·k_j / (‖q_i‖ ‖k_j‖), α = softmax(e) (Henry et al. 2020, "QKNorm").

    An energy stays within ±g for any norms of q and k, so these cannot saturate the softmax; no 1/√d_k. g
    ``sharpness`` (heads,) is learned and starts at ``scale``. The paper starts at log₂(L² − L), where 97.5 % of the
    training sentences are shorter than L: 10 corresponds to L = 32.5. Requires d_q = d_k. No state. Cost: that of dot
    on its fused path, plus (query + key)·d_k. Differs from the paper in: one g per head, not one for all.

    Args:
        heads: number of heads, each with its own g.
        scale: the first value of g.
    """

    def __init__(self, *, heads: int, scale: float = 10.0) -> None:
        super().__init__()
        self.sharpness = nn.Parameter(torch.full((heads,), float(scale)))

    def can(self) -> Abilities:
        return Abilities(
            causal=True,
            cross=True,
            stream="exact",
            weights=True,
            order_free=True,
            normalized=True,
            fused=True,
            same_width=True,
        )

    def energy(
        self, query: Float[Tensor, "batch heads query width"], key: Float[Tensor, "batch heads key width"]
    ) -> Float[Tensor, "batch heads query key"]:
        return torch.einsum("bhtd,bhsd->bhts", self._sharpened(query), _unit(key))

    def forward(
        self,
        query: Float[Tensor, "batch heads query width"],
        key: Float[Tensor, "batch key_heads key width"],
        value: Float[Tensor, "batch key_heads key value"],
        bound: Bound,
        state: State = (),
        *,
        need_weights: bool = False,
    ) -> Attended:
        # Mask before the division: the gradient of a norm is NaN where the key is NaN.
        unit = _unit(zero_masked(key, bound))
        context, weights = attend(
            self._sharpened(query), unit, value, bound, scale=1.0, dropping=self.dropping, need_weights=need_weights
        )
        return Attended(context, weights, state)

    def _sharpened(self, query: Float[Tensor, "batch heads query width"]) -> Float[Tensor, "batch heads query width"]:
        """Return g q / ‖q‖."""
        return _unit(query) * self.sharpness[:, None, None]

    def terms(
        self, query: Float[Tensor, "heads query width"], key: Float[Tensor, "heads key prepared"], bound: Bound
    ) -> ScoreTerms | None:
        unit = torch.nn.functional.normalize
        sharpened = unit(query, dim=-1) * self.sharpness[:, None, None]
        return ScoreTerms("product", "g q/‖q‖ · k/‖k‖", 1.0, sharpened, unit(key, dim=-1))


def _unit(x: Float[Tensor, "batch heads length width"]) -> Float[Tensor, "batch heads length width"]:
    """Return x / ‖x‖; 0 stays 0."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + TINY)
