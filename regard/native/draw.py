"""Draws from rows of scores, limited to the most probable types, by the kernels."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.native import passes
from regard.native.passes import LANES, row_pass


def drawn_tokens(
    scores: Float[Tensor, "rows types"],
    uniform: Float[Tensor, "rows"],
    top_k: int | None,
    top_p: float | None,
    min_p: float | None,
) -> Int[Tensor, "rows"] | None:
    """The token of each row at the quantile ``uniform`` of softmax(scores), of those that the limits leave.

    None where the kernels do not take these. Limits are those of ``search.sampling.limit_scores``; probabilities are of
    32 bits, their sums of 64. Cost of a row: 3 passes over its types, and at most 4 more for each of ``top_k`` and
    ``top_p``; nothing is sorted.
    """
    taken = scores.is_cpu and scores.dtype is torch.float32 and scores.is_contiguous() and scores.numel()
    if not taken or uniform.dtype is not torch.float64 or uniform.shape != scores.shape[:1] or not passes.available():
        return None
    rows, types = scores.shape
    tokens = torch.empty(rows, dtype=torch.int64)
    scratch = torch.empty(torch.get_num_threads(), -(-types // LANES) * LANES)
    given = row_pass(
        "choose", torch.float32, rows, types, x=scores, y=tokens, scratch=scratch, other=uniform.contiguous()
    )
    given.room, given.heads = scratch.shape[1], top_k or 0
    given.scale = 0.0 if top_p is None or top_p >= 1 else max(top_p, torch.finfo(torch.float32).tiny)
    given.epsilon = math.log(min_p) if min_p else -math.inf
    passes.run(given, scores.numel())
    return tokens
