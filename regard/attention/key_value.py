"""Cache of keys and values of one sequence: what causal self-attention has seen, whole or the last of it."""

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

    A row's next key goes into its first slot that is not valid, so rows at different steps share a batch. Pieces follow
    one another: a piece starts where the cache ends, unless its positions are given. ``forgotten``: keys of each row
    that a window has left behind; () where none ever are.
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
        """Cache with more columns, of which the valid ones, a prefix of each row, count."""
        if self.key.shape[2] == 0:
            return KeyValue(key, value, span, self.forgotten)
        n, length = key.shape[2], self.length
        needed = max(length.tolist(), default=0) + n
        at = length[:, None] + torch.arange(n, device=key.device)
        keys, values = _write(self.key, key, at, needed), _write(self.value, value, at, needed)
        return KeyValue(keys, values, self.span.append(span, length, keys.shape[2]), self.forgotten)

    def recent(self, most: int) -> KeyValue:
        """Cache of the last ``most`` keys of each row, so that it stays as large however many follow.

        Where positions are given all are kept: which keys are near is not known from their order.
        """
        if not isinstance(self.forgotten, Tensor) or isinstance(self.span.given_position, Tensor):
            return self
        passed = (self.length - most).clamp_min(0)
        if self.key.shape[2] == 0 or not bool(passed.any()):
            return self
        columns = passed[:, None] + torch.arange(most, device=passed.device)
        key, value = (_gather(x, columns) for x in (self.key, self.value))
        return KeyValue(key, value, self.span.gather(columns, passed), self.forgotten + passed)

    def truncate(self, length: Int[Tensor, "batch"]) -> KeyValue:
        if isinstance(self.forgotten, Tensor):
            length = length - self.forgotten
            if bool(((self.forgotten > 0) & (length < self.length)).any()):
                raise TypeError(
                    "this state cannot be truncated: it keeps the keys of a window, and has forgotten older ones; "
                    "keep the state from before the draft instead"
                )
        return self._replace(span=self.span.truncate(length))

    def join(self, states: Sequence[KeyValue]) -> KeyValue:
        joined = SourceKeys(*self[:3]).join([SourceKeys(*state[:3]) for state in states])
        return KeyValue(*joined, join([state.forgotten for state in states]))


def _gather(
    x: Float[Tensor, "batch key_heads slots width"], columns: Int[Tensor, "batch kept"]
) -> Float[Tensor, "batch key_heads kept width"]:
    """Columns of each row; those beyond the last are the last."""
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
