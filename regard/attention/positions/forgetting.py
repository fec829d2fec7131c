"""Forgetting attention: gates instead of positions; every position decays the energies of earlier ones."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from regard.attention.mask import Bound
from regard.attention.positions.distance_bias import EnergyBias
from regard.attention.span import Span

Sums = Float64[Tensor, "batch length heads"]


class ForgettingBias(EnergyBias):
    """b(i, j, h) = Σ_{l=j+1…i} log f_l = c_i − c_j, with c of ``Span.decay`` (Lin et al. 2025, Eq. 5); causal only.

    The difference is computed in float64 and rounded last: c decreases without bound, while differences stay small.
    """

    def forward(
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Float[Tensor, "batch heads query key"]:
        at_query, at_key = (span.read("decay").transpose(1, 2) for span in (bound.query, bound.key))
        return (at_query[..., :, None] - at_key[..., None, :]).to(query.dtype)


class ForgetGate(nn.Module):
    """f_t = σ(w_f · x_t + b_f), one for each head, and c_t = Σ_{l≤t} log f_l (Lin et al. 2025, §3.1).

    Parameters: heads · (width + 1). The sums are those of a row, or of each document if the span has ``segment``:
    earlier documents do not affect them, not even by rounding.

    Args:
        width: features of a position.
        heads: number of heads, each with its own gate.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, heads)

    def forward(self, x: Float[Tensor, "batch length width"], span: Span, past: Span) -> Span:
        """Return ``span`` with ``decay``, which continues from the last position of ``past``."""
        log_f = logsigmoid(self.project(x).double())
        before = _last(past, log_f)
        if not isinstance(span.segment, Tensor):
            return span._replace(decay=log_f.cumsum(1) + before[:, None])
        first = _first_columns(span, past)
        continued = first.cumsum(1) == 0  # the document that ``past`` ends in
        return span._replace(decay=_segmented_sums(log_f, first) + before[:, None] * continued[..., None])


def _at_end(past: Span) -> Int[Tensor, "batch 1"]:
    return (past.length - 1).clamp_min(0)[:, None]


def _last(past: Span, like: Sums) -> Float64[Tensor, "batch heads"]:
    """Return c of the last valid position of each row; 0 for an empty row."""
    if not isinstance(past.decay, Tensor):
        return like.new_zeros(like.shape[0], like.shape[2])
    last = past.decay.take_along_dim(_at_end(past)[..., None], 1)[:, 0]
    return last.masked_fill((past.length == 0)[:, None], 0.0)


def _first_columns(span: Span, past: Span) -> Bool[Tensor, "batch length"]:
    """Return whether a position is the first of its document."""
    segment = span.read("segment")
    changes = segment.diff(dim=1) != 0
    if not past.valid.shape[1]:
        return torch.cat([torch.ones_like(segment[:, :1], dtype=torch.bool), changes], 1)
    before = past.read("segment").take_along_dim(_at_end(past), 1)
    return torch.cat([(segment[:, :1] != before) | (past.length == 0)[:, None], changes], 1)


def _segmented_sums(x: Sums, first: Bool[Tensor, "batch length"]) -> Sums:
    """Return running sums that restart at each position of ``first``.

    Computed by doubling: after step k a sum has the last 2^k terms of its document. The order of additions therefore
    depends only on the position within the document.
    """
    column = torch.arange(x.shape[1], device=x.device)
    place = column - (column * first).cummax(1).values if x.shape[1] else column
    shift = 1
    while shift < x.shape[1]:
        earlier = x[:, :-shift] * (place[:, shift:] >= shift)[..., None]
        x = torch.cat([x[:, :shift], x[:, shift:] + earlier], 1)
        shift *= 2
    return x
