"""Sampling from rows of scores, limited to the most probable types, with the kernels."""

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
    """Return each row's token at quantile ``uniform`` of softmax(scores), among the tokens within the limits.

    Returns None if the kernels do not support these tensors. The limits are those of ``search.choice.limit_scores``.
    Probabilities have 32 bits, their sums 64. Cost per row: 3 passes over its types, and at most 4 more for each of
    ``top_k`` and ``top_p``; nothing is sorted.
    """
    supported = scores.is_cpu and scores.dtype is torch.float32 and scores.is_contiguous() and scores.numel()
    if (
        not supported
        or uniform.dtype is not torch.float64
        or uniform.shape != scores.shape[:1]
        or not passes.available()
    ):
        return None
    rows, types = scores.shape
    tokens = torch.empty(rows, dtype=torch.int64)
    scratch = torch.empty(torch.get_num_threads(), -(-types // LANES) * LANES)
    call = row_pass(
        "choose", torch.float32, rows, types, x=scores, y=tokens, scratch=scratch, other=uniform.contiguous()
    )
    call.room, call.heads = scratch.shape[1], top_k or 0
    call.scale = 0.0 if top_p is None or top_p >= 1 else max(top_p, torch.finfo(torch.float32).tiny)
    call.epsilon = math.log(min_p) if min_p else -math.inf
    passes.run(call, scores.numel())
    return tokens
