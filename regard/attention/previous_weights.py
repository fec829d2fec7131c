"""Attention weights of earlier queries: initial weights, the state that holds them, and filters over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import conv1d, pad

from regard.attention.additive_score import uniform
from regard.attention.mask import Bound

Initial = Literal["uniform", "first", "nowhere"]


class PreviousWeights(NamedTuple):
    """Weights over the keys: the last ones, or a sum of all. Joined rows are padded with zeros to the most keys."""

    weights: Float[Tensor, "batch heads *past key"]

    def join(self, states: Sequence[PreviousWeights]) -> PreviousWeights:
        keys = max(state.weights.shape[-1] for state in states)
        return PreviousWeights(torch.cat([pad(s.weights, (0, keys - s.weights.shape[-1])) for s in states]))


def initial_weights(
    initial: str,
) -> Callable[[Float[Tensor, "batch prepared_heads key prepared"], Bound, int], Float[Tensor, "batch heads key"]]:
    """Return the function of that name, which computes α_0 from keys, their bound and the number of heads."""
    table = {"uniform": _uniform, "first": _first, "nowhere": _nowhere}
    if initial not in table:
        raise ValueError(f"initial must be one of {', '.join(table)}, got {initial!r}")
    return table[initial]


def _uniform(
    key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound, heads: int
) -> Float[Tensor, "batch {heads} key"]:
    """Return the same weight for every valid key of a row, 0 for padding."""
    valid = bound.key.valid.to(key.dtype)
    start = valid / valid.sum(1, keepdim=True).clamp_min(1)
    return start[:, None].expand(-1, heads, -1)


def _first(
    key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound, heads: int
) -> Float[Tensor, "batch {heads} key"]:
    """Return all weight on the first key."""
    start = torch.zeros_like(bound.key.valid, dtype=key.dtype)
    start[:, :1] = bound.key.valid[:, :1]
    return start[:, None].expand(-1, heads, -1)


def _nowhere(
    key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound, heads: int
) -> Float[Tensor, "batch {heads} key"]:
    """Return weight 0 for every key."""
    return key.new_zeros(len(key), heads, key.shape[2])


def at_least_float32(weights: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return the weights in float32 or wider: a sum in bfloat16 soon stops growing by small weights."""
    return weights.to(torch.promote_types(weights.dtype, torch.float32))


class Filters(nn.Module):
    """f = F ∗ a: ``channels`` filters per head over ``past`` earlier weights, 2·reach + 1 keys wide.

    F ``weight`` (heads·channels, past, 2·reach + 1) has no bias, so padding, whose weight is 0, contributes nothing.
    Cost of one query: key·channels·past·(2·reach + 1) multiply-adds per head.
    """

    def __init__(self, *, heads: int, channels: int, reach: int, past: int = 1) -> None:
        super().__init__()
        if min(channels, past) < 1 or reach < 0:
            raise ValueError(f"filters require channels ≥ 1, past ≥ 1 and reach ≥ 0, got {channels}, {past}, {reach}")
        self.heads, self.reach = heads, reach
        self.weight = uniform(heads * channels, past, 2 * reach + 1)

    def forward(self, weights: Float[Tensor, "batch heads past key"]) -> Float[Tensor, "batch heads channels key"]:
        features = conv1d(weights.flatten(1, 2), self.weight, padding=self.reach, groups=self.heads)
        return features.unflatten(1, (self.heads, -1))


def width_warning(reach: int, longest: int) -> str | None:
    """Return a warning if filters are wider than the longest source, in tokens, else None."""
    width = 2 * reach + 1
    if width <= longest:
        return None
    return f"the location filter of width {width} is wider than the longest source ({longest} tokens)"
