"""The coverage penalty: a deduction from an output's score for source pieces that got little attention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.search.contract import Hypothesis

FLOOR = 1e-6  # a source piece without any attention costs log FLOOR, not minus infinity


def coverage(weights: Float[Tensor, "target source"]) -> float:
    """cp(X; Y) = Σ_i log min(Σ_j p_ij, 1) in nats; 0 where each source piece i got a total weight of 1 (Wu et al.).

    ``weights`` p_ij: attention of the query that predicts target piece j, the end included, on source piece i (Eq. 14).
    """
    return float(torch.log(weights.double().sum(0).clamp(FLOOR, 1.0)).sum())


def reranked(
    hypotheses: Sequence[Hypothesis], weights: Sequence[Float[Tensor, "_ source"]], *, penalty: float
) -> list[Hypothesis]:
    """The hypotheses rescored by score + ``penalty`` · coverage, best first; equal ones keep their order."""
    scored = [
        each._replace(score=each.score + penalty * coverage(seen))
        for each, seen in zip(hypotheses, weights, strict=True)
    ]
    return sorted(scored, key=lambda each: -each.score)
