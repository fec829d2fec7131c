"""Sampling from scores, with top-k, top-p and min-p limits."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.native.draw import drawn_tokens
from regard.search.contract import LogP

EXTREME = 1e20


def bounded(temperature: float) -> float:
    """Return a temperature whose quotients are finite in float32; beyond these bounds sampling does not change."""
    return min(max(temperature, 1 / EXTREME), EXTREME)


def limit_scores(scores: LogP, top_k: int | None, top_p: float | None, min_p: float | None = None) -> LogP:
    """Return the scores with −∞ for the types that may not be sampled; the most probable type is always kept.

    Applied in this order: the ``top_k`` best; of these, the fewest that reach ``top_p`` of their probability; of these,
    the types with p ≥ ``min_p`` · max p (Nguyen et al. 2024). Scores are log-probabilities up to a constant, after
    temperature and penalties.
    """
    if top_k is not None and top_k < scores.shape[-1]:
        scores = scores.masked_fill(scores < scores.topk(top_k, -1).values[:, -1:], -math.inf)
    if top_p is not None:
        ordered, index = scores.sort(dim=-1, descending=True, stable=True)
        probability = torch.softmax(ordered, -1)
        beyond = probability.cumsum(-1) - probability >= top_p  # the more probable types reach top_p already
        beyond[:, 0] = False  # also if top_p rounds to 0 in this dtype
        scores = scores.masked_fill(torch.zeros_like(beyond).scatter(-1, index, beyond), -math.inf)
    if min_p:
        scores = scores.masked_fill(scores < scores.amax(-1, keepdim=True) + math.log(min_p), -math.inf)
    return scores


def draw_tokens(scores: LogP, uniform: Float[Tensor, "rows"]) -> Int[Tensor, "rows"]:
    """Return the token of each row at the quantile ``uniform`` in [0, 1) of softmax(scores).

    A uniform random number gives a sample. A row's token depends only on its own scores and number, so samples do not
    depend on the batch.
    """
    reached = torch.softmax(scores.double(), -1).cumsum(-1)
    whole = reached[:, -1:]
    token = torch.searchsorted(reached, uniform.to(reached)[:, None] * whole, right=True)
    last = (reached < whole).sum(-1, keepdim=True)  # the last possible token, if the product was rounded up
    return torch.minimum(token, last).squeeze(-1)


def draw_limited(
    scores: LogP,
    uniform: Float[Tensor, "rows"],
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Int[Tensor, "rows"]:
    """Return ``draw_tokens`` of ``limit_scores``, by the compiled kernels if available, which do not sort."""
    drawn = drawn_tokens(scores, uniform, top_k, top_p, min_p)
    return draw_tokens(limit_scores(scores, top_k, top_p, min_p), uniform) if drawn is None else drawn
