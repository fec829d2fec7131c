"""Luong's monotonic local attention (local-m)."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.contract import Abilities
from regard.attention.kernel import Energy, masked_softmax
from regard.attention.mask import Bound
from regard.attention.score import ReweightedScore, Score


class LocalMonotonic(ReweightedScore):
    """p_i = i, α_ij = align(q_i, k_j) for |j − p_i| ≤ D, 0 elsewhere (Luong et al. 2015, §3.2, "local-m").

    Assumes that source and target are aligned monotonically. i is the query's absolute position and j the key's, both
    from 0. align is the softmax of ``score`` over the allowed keys of the window, ``window`` = D keys on either side.
    A window that extends beyond the sentence is normalized over the keys inside. A query more than D after the last
    key has weights 0. No parameters except those of ``score``, no state; the result of a query depends on its
    position. Cost: that of ``score``, over all keys.

    Args:
        score: the mechanism that computes the energies.
        window: D, the number of keys on either side.
    """

    def __init__(self, score: Score, *, window: int = 10) -> None:
        super().__init__()
        if not isinstance(window, int) or window < 1:
            raise ValueError(f"window must be a whole number of keys ≥ 1 on either side, got {window}")
        self.score, self.window = score, window

    def can(self) -> Abilities:
        return Abilities(
            causal=True,
            cross=True,
            stream="exact",
            weights=True,
            order_free=False,
            normalized=True,
            fused=False,
            may_see_nothing=True,
            same_width=self.score.can().same_width,
        )

    def normalizer(
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Callable[[Energy, Bool[Tensor, "batch 1 query key"]], Energy]:
        distance = bound.key.position[:, None, None, :] - bound.query_position[:, None, :, None]

        def align(
            energy: Float[Tensor, "batch heads query key"], allowed: Bool[Tensor, "batch #heads query key"]
        ) -> Float[Tensor, "batch heads query key"]:
            return masked_softmax(energy, allowed & (distance.abs() <= self.window))

        return align
