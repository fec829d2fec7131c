"""The coverage penalty: lowers an output's score for source tokens that received little attention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.search.contract import Hypothesis

FLOOR = 1e-6  # a source token without attention costs log FLOOR instead of minus infinity


def coverage(weights: Float[Tensor, "target source"]) -> float:
    """cp(X; Y) = Σ_i log min(Σ_j p_ij, 1) in nats; 0 if each source token i has a total weight ≥ 1 (Wu et al.).

    ``weights`` p_ij: attention of the query that predicts target token j, including the end, on source token i (Eq.
    14).
    """
    return float(torch.log(weights.double().sum(0).clamp(FLOOR, 1.0)).sum())


def reranked(
    hypotheses: Sequence[Hypothesis], weights: Sequence[Float[Tensor, "_ source"]], *, penalty: float
) -> list[Hypothesis]:
    """Return the hypotheses rescored by score + ``penalty`` · coverage, best first; equal ones keep their order."""
    scored = [
        hypothesis._replace(score=hypothesis.score + penalty * coverage(attention))
        for hypothesis, attention in zip(hypotheses, weights, strict=True)
    ]
    return sorted(scored, key=lambda hypothesis: -hypothesis.score)
