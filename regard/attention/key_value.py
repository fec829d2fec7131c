"""Cache of keys and values of one sequence for causal self-attention: all of them, or the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.contract import SourceKeys
from regard.attention.span import Span
from regard.core.state import join

BUCKET = 32  # a cache grows by this many slots at a time


class KeyValue(NamedTuple):
    """Cache of the keys and values seen so far, and the span of the keys.

    A row's next key is written to its first slot that is not valid, so rows at different steps share a batch. Pieces
    are consecutive: a piece starts where the cache ends, unless its positions are given. ``forgotten``: number of keys
    of each row that a window has dropped; () if keys are never dropped.
    """

    key: Float[Tensor, "batch prepared_heads slots prepared"]
    value: Float[Tensor, "batch key_heads slots value"]
    span: Span
    forgotten: Int[Tensor, "batch"] | tuple[()] = ()

    @property
    def length(self) -> Int[Tensor, "batch"]:
        """The number of keys of each row."""
        return self.span.length

    def append(
        self,
        key: Float[Tensor, "batch prepared_heads length prepared"],
        value: Float[Tensor, "batch key_heads length value"],
        span: Span,
    ) -> KeyValue:
        """Return the cache with more columns; only the valid ones, a prefix of each row, count."""
        if self.key.shape[2] == 0:
            return KeyValue(key, value, span, self.forgotten)
        added, length = key.shape[2], self.length
        needed = max(length.tolist(), default=0) + added
        slots = length[:, None] + torch.arange(added, device=key.device)
        keys, values = _write(self.key, key, slots, needed), _write(self.value, value, slots, needed)
        return KeyValue(keys, values, self.span.append(span, length, keys.shape[2]), self.forgotten)

    def recent(self, limit: int) -> KeyValue:
        """Return the cache of the last ``limit`` keys of each row, which bounds its size.

        If positions are given, all keys are kept: their order does not show which ones are near.
        """
        if not isinstance(self.forgotten, Tensor) or isinstance(self.span.given_position, Tensor):
            return self
        dropped = (self.length - limit).clamp_min(0)
        if self.key.shape[2] == 0 or not bool(dropped.any()):
            return self
        columns = dropped[:, None] + torch.arange(limit, device=dropped.device)
        key, value = (_gather(x, columns) for x in (self.key, self.value))
        return KeyValue(key, value, self.span.gather(columns, dropped), self.forgotten + dropped)

    def truncate(self, length: Int[Tensor, "batch"]) -> KeyValue:
        if isinstance(self.forgotten, Tensor):
            length = length - self.forgotten
            if bool(((self.forgotten > 0) & (length < self.length)).any()):
                raise TypeError(
                    "the state cannot be truncated: its window has dropped older keys; keep the earlier state instead"
                )
        return self._replace(span=self.span.truncate(length))

    def join(self, states: Sequence[KeyValue]) -> KeyValue:
        joined = SourceKeys(*self[:3]).join([SourceKeys(*state[:3]) for state in states])
        return KeyValue(*joined, join([state.forgotten for state in states]))


def _gather(
    x: Float[Tensor, "batch key_heads slots width"], columns: Int[Tensor, "batch kept"]
) -> Float[Tensor, "batch key_heads kept width"]:
    """Return some columns of each row; indices after the last column read the last."""
    return x.gather(2, columns.clamp_max(x.shape[2] - 1)[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))


def _write(
    cache: Float[Tensor, "batch key_heads slots width"],
    new: Float[Tensor, "batch key_heads length width"],
    slots: Int[Tensor, "batch length"],
    needed: int,
) -> Float[Tensor, "batch key_heads grown width"]:
    if needed > cache.shape[2]:
        cache = pad(cache, (0, 0, 0, -(-needed // BUCKET) * BUCKET - cache.shape[2]))
    return cache.scatter(2, slots[:, None, :, None].expand_as(new), new)
