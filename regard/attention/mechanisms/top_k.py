"""Top-k attention: softmax over the k keys of highest energy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.contract import Abilities
from regard.attention.kernel import Energy, masked_softmax
from regard.attention.mask import Bound
from regard.attention.score import ReweightedScore, Score


class TopK(ReweightedScore):
    """α_ij = exp(e_ij) / Σ_{j' ∈ K_i} exp(e_ij') for j ∈ K_i, 0 elsewhere, e_ij = ``score``(q_i, k_j)

    with K_i the ``keep`` allowed keys of highest energy (Chorowski et al. 2015, §2.3: keep the k
    best frames and normalize again, for long noisy sources). Ties with the last kept key are kept too, so the order of
    keys does not matter. The gradient is that of the softmax over the kept
    keys; the selection is piecewise constant. No parameters except those of ``score``, no state. Cost: that of
    ``score``, over all keys, and a partial sort; it saves no computation.

    Args:
        score: the mechanism that computes the energies.
        keep: k, the number of keys that keep their weight, at least 1.
    """

    def __init__(self, score: Score, *, keep: int = 4) -> None:
        super().__init__()
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self.score, self.keep = score, keep

    def can(self) -> Abilities:
        return replace(self.score.can(), fused=False)

    def normalizer(
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Callable[[Energy, Bool[Tensor, "batch 1 query key"]], Energy]:
        return self._best

    def _best(
        self, energy: Float[Tensor, "batch heads query key"], allowed: Bool[Tensor, "batch #heads query key"]
    ) -> Float[Tensor, "batch heads query key"]:
        seen = energy.detach().masked_fill(~allowed, float("-inf"))
        last = seen.topk(min(self.keep, seen.shape[-1]), -1).values[..., -1:]
        return masked_softmax(energy, allowed & (seen >= last))
