"""The most probable types of each row: top-k over a large vocabulary, chunk by chunk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from regard.search.contract import LogP

CHUNK = 64  # types; the best ones are searched in the chunks of a row with the highest maxima
LARGE = 1024  # minimum number of types for which the search by chunks is faster


class LiveTotals(NamedTuple):
    """Log P of a beam's live hypotheses, and the bound that a sentence's maximum must exceed to continue its search."""

    total: Float64[Tensor, "sentences width"]
    least: Float64[Tensor, "sentences"]


@dataclass(frozen=True)
class BestTypes:
    """A ``Reduce``: log-probability and id of the best types of each row, or of the one type that is forced.

    ``forced``: of each row, the types that are forced at this step and at the following ones.

    ``ahead``: maximum number of tokens that a capable decoder may generate in one call. Without ``beam``, it feeds each
    row its best type (``count`` 1) until one is ``end``, and returns one column per token. With ``beam``, it extends
    the live hypotheses by the best types that do not end. It stops when one of the ``width`` best ends or a sentence
    may be done. It then returns value and token of the last step. For each previous step, it also returns the parent of
    each row, its token, and the token's log-probability, and finally ``total`` after these steps. The model state has
    advanced by these steps.
    """

    count: int
    suppressed: tuple[int, ...] = ()
    forced: Sequence[Sequence[int]] = ()  # by row, of all rows; empty if no type is forced
    ahead: int = 1
    end: int = -1
    beam: LiveTotals | None = None

    def __call__(self, log_p: LogP, rows: slice) -> tuple[Tensor, ...]:
        value, token = best_types(log_p, self.count, self.suppressed)
        forced = self.forced_now(rows)
        self.force(value, token, forced, [log_p[row, type or 0] for row, type in enumerate(forced)])
        return value, token

    def forced_now(self, rows: slice) -> list[int | None]:
        """Return the type that is forced on each row at this step; empty if none is forced on any."""
        forced = [types[0] if types else None for types in self.forced[rows]]
        return forced if any(self.forced[rows]) else []

    def known(self) -> int:
        """Return the number of the next steps whose types are forced on all rows; the last type may be ``end``."""
        ends = (types.index(self.end) + 1 for types in self.forced if self.end in types)
        return min([*map(len, self.forced), *ends], default=0)

    @staticmethod
    def force(
        value: Float[Tensor, "rows count"], token: Int[Tensor, "rows count"], forced: Sequence[int | None],
        log_p: Sequence[Tensor],
    ) -> None:  # fmt: skip
        """Make the forced type of a row the only possible one, even if improbable; ``log_p``: of these types."""
        for row, type in enumerate(forced):
            if type is not None:
                value[row, 1:] = -math.inf
                value[row, 0] = log_p[row].clamp_min(torch.finfo(value.dtype).min)
                token[row] = type


def best_types(
    log_p: LogP, count: int, suppressed: Sequence[int] = ()
) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """Return log-probability and id of the ``count`` best types of each row, best first; −∞ for a suppressed type.

    With many types, the best of a row are in the chunks with the highest maxima, and maxima are cheap to compute.
    """
    count = min(count, log_p.shape[1])
    value, token = _top(log_p, count)
    if suppressed and not set(suppressed).isdisjoint(token.flatten().tolist()):  # rare in a trained model
        if count == 1:
            index = torch.tensor(suppressed, dtype=torch.int64, device=log_p.device)
            return log_p.index_fill(1, index, -math.inf).max(-1, keepdim=True)
        value, token = _top(log_p, min(count + len(suppressed), log_p.shape[1]))
        barred = torch.isin(token, token.new_tensor(suppressed))
        value, index = value.masked_fill(barred, -math.inf).topk(count, -1)
        token = token.gather(1, index)
    return value, token


def _top(log_p: LogP, count: int) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    if count == 1 and log_p.shape[1] < LARGE:
        return log_p.max(-1, keepdim=True)  # the first of equal values, like argmax
    many = log_p.shape[1] >= max(LARGE, 4 * CHUNK * count)
    return _top_of_many(log_p, count) if many else log_p.topk(count, -1)


def _top_of_many(log_p: LogP, count: int) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    rows, types = log_p.shape
    if rows == count == 1:
        return log_p.max(-1, keepdim=True)
    whole = types // CHUNK * CHUNK
    chunks = log_p[:, :whole].unflatten(1, (-1, CHUNK))
    highest = chunks.amax(-1).topk(count, -1, sorted=False).indices
    candidates = chunks[torch.arange(rows, device=log_p.device)[:, None], highest].flatten(1)
    id = (highest[..., None] * CHUNK + torch.arange(CHUNK, device=log_p.device)).flatten(1)
    rest = torch.arange(whole, types, device=log_p.device).expand(rows, -1)
    value, index = torch.cat([candidates, log_p[:, whole:]], 1).topk(count, -1)
    return value, torch.cat([id, rest], 1).gather(1, index)
