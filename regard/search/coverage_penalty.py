"""The coverage penalty: what a finished output loses for source pieces that it hardly looked at."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.search.batch_search import Hypothesis

__all__ = ["coverage", "reranked"]

FLOOR = 1e-6  # a piece that was not looked at at all costs log FLOOR, not minus infinity


def coverage(weights: Float[Tensor, "target source"]) -> float:
    """cp(X; Y) = Σ_i log min(Σ_j p_ij, 1): 0 where each source piece i got a whole look in all (Wu et al., Eq. 14).

    ``weights`` p: of what predicts each target piece, the end included, on each source piece.
    """
    return float(torch.log(weights.double().sum(0).clamp(FLOOR, 1.0)).sum())


def reranked(
    hypotheses: Sequence[Hypothesis], weights: Sequence[Float[Tensor, "target source"]], *, penalty: float
) -> list[Hypothesis]:
    """By score + ``penalty`` · coverage, best first; equal ones stay as they were."""
    scored = [
        each._replace(score=each.score + penalty * coverage(seen))
        for each, seen in zip(hypotheses, weights, strict=True)
    ]
    return sorted(scored, key=lambda each: -each.score)
