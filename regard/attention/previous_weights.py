"""Where earlier queries looked: how that begins, is kept, and is seen through filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import conv1d, pad

from regard.attention.additive_score import uniform
from regard.attention.mask import Bound

__all__ = ["Filters", "Initial", "WeightsSoFar", "first_look", "too_wide", "wide"]

Initial = Literal["uniform", "first", "nowhere"]


class WeightsSoFar(NamedTuple):
    """Weights over the keys, the last ones or a sum of all; joined rows are padded with zeros to the most keys."""

    weights: Float[Tensor, "batch heads *past key"]

    def join(self, states: Sequence[WeightsSoFar]) -> WeightsSoFar:
        keys = max(state.weights.shape[-1] for state in states)
        return WeightsSoFar(torch.cat([pad(s.weights, (0, keys - s.weights.shape[-1])) for s in states]))


def first_look(
    initial: str,
) -> Callable[[Float[Tensor, "batch prepared_heads key prepared"], Bound, int], Float[Tensor, "batch heads key"]]:
    """How keys, their bound and the number of heads become α_0, by the name an option gives it."""
    table = {"uniform": _uniform, "first": _first, "nowhere": _nowhere}
    if initial not in table:
        raise ValueError(f"initial is one of {', '.join(table)}, not {initial!r}")
    return table[initial]


def _uniform(
    key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound, heads: int
) -> Float[Tensor, "batch {heads} key"]:
    """The same for every valid key of a row; padding has 0."""
    valid = bound.key.valid.to(key.dtype)
    start = valid / valid.sum(1, keepdim=True).clamp_min(1)
    return start[:, None].expand(-1, heads, -1)


def _first(
    key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound, heads: int
) -> Float[Tensor, "batch {heads} key"]:
    """All on the first key."""
    start = torch.zeros_like(bound.key.valid, dtype=key.dtype)
    start[:, :1] = bound.key.valid[:, :1]
    return start[:, None].expand(-1, heads, -1)


def _nowhere(
    key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound, heads: int
) -> Float[Tensor, "batch {heads} key"]:
    """No key has been looked at yet."""
    return key.new_zeros(len(key), heads, key.shape[2])


def wide(weights: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """In float32 or wider: a sum of weights in bfloat16 soon takes no small one any more."""
    return weights.to(torch.promote_types(weights.dtype, torch.float32))


class Filters(nn.Module):
    """f = F ∗ a: ``channels`` filters a head over ``past`` earlier weights, 2·reach + 1 keys wide.

    F ``weight`` (heads·channels, past, 2·reach + 1), without bias, so that padding, whose weight is 0, stays silent.
    Cost of one query: key·channels·past·(2·reach + 1) multiply-adds per head.
    """

    def __init__(self, *, heads: int, channels: int, reach: int, past: int = 1) -> None:
        super().__init__()
        if min(channels, past) < 1 or reach < 0:
            raise ValueError(f"no filters have {channels} channels, a past of {past} and a reach of {reach}")
        self.heads, self.reach = heads, reach
        self.weight = uniform(heads * channels, past, 2 * reach + 1)

    def forward(self, looked: Float[Tensor, "batch heads past key"]) -> Float[Tensor, "batch heads channels key"]:
        found = conv1d(looked.flatten(1, 2), self.weight, padding=self.reach, groups=self.heads)
        return found.unflatten(1, (self.heads, -1))


def too_wide(reach: int, longest: int) -> str | None:
    """What there is to say of filters that reach farther than the source is long."""
    width = 2 * reach + 1
    if width <= longest:
        return None
    return f"a location kernel of {width} is wider than the longest source, {longest} pieces"
