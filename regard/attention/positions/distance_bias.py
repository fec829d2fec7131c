"""Biases of energies by the distance between query and key: ALiBi and T5's buckets."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from regard.attention.mask import Bound


def distances(bound: Bound) -> Int[Tensor, "#batch query key"]:
    """Return the distance j − i of every pair in absolute positions; one row if all rows agree.

    Absolute positions make it correct with a cache.
    """
    query, key = bound.query, bound.key
    if bound.has_given_positions:
        return key.position[:, None] - query.position[:, :, None]
    offset = key.start - query.start
    if len(offset) > 1 and bool((offset == offset[0]).all()):
        offset = offset[:1]
    i, j = (torch.arange(span.valid.shape[1], device=offset.device) for span in (query, key))
    return offset[:, None, None] + (j - i[:, None])


class EnergyBias(nn.Module, ABC):
    """Base of biases b(i, j, head), added to the energy of query i and key j after the scale, never to values."""

    @abstractmethod
    def forward(
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Float[Tensor, "#batch heads query key"]:
        """Return the bias of every pair, in the dtype and for the number of heads of ``query``."""


def alibi_slopes(heads: int, *, device: torch.device | None = None) -> Float64[Tensor, "{heads}"]:
    """m_h = 2^(−8h/H), h = 1 … H: for 8 heads 1/2, 1/4, … 1/256 (Press et al. 2022, §3).

    If H is not a power of two: the slopes of the largest power P below it, then every second slope of 2P, as in the
    authors' code.

    Args:
        heads: H, the number of heads.
        device: of the result.
    """
    power = 2 ** int(math.log2(heads))
    exponent = torch.arange(1, power + 1, dtype=torch.float64, device=device) / power
    between = (2 * torch.arange(heads - power, dtype=torch.float64, device=device) + 1) / (2 * power)
    return torch.exp2(-8 * torch.cat([exponent, between]))


class Alibi(EnergyBias):
    """b(i, j, h) = −m_h · |i − j|: attention with linear biases (Press et al. 2022, §3); m is ``alibi_slopes``.

    No parameters; the bias is not divided by √d_k. The paper is causal, j ≤ i; for bidirectional attention its authors
    suggest −m · |i − j|. The bias decreases with distance, so a model trained on short sequences extrapolates.
    """

    def forward(
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Float[Tensor, "#batch heads query key"]:
        slopes = alibi_slopes(query.shape[1], device=query.device)
        # Products in float64: bfloat16 would round distances above 256 before the multiplication.
        return (-slopes[:, None, None] * distances(bound).abs()[:, None]).to(query.dtype)


def t5_bucket(past: Int[Tensor, "*shape"], buckets: int, longest: int) -> Int[Tensor, "*shape"]:
    """Return the bucket, from 0, of a distance r ≥ 0: half of ``buckets`` hold one distance each, the rest grow.

    With m = buckets / 2: r if r < m, else m + ⌊(buckets − m) · ln(r/m) / ln(longest/m)⌋, at most the last bucket.
    Computed in float32 and in this order, like Hugging Face, because powers of two are on bucket boundaries.

    Args:
        past: distances ≥ 0, of any shape.
        buckets: number of buckets.
        longest: distances from this one on share the last bucket.
    """
    single = buckets // 2
    ratio = torch.log(past.clamp_min(1).float() / single) / math.log(longest / single)
    far = (single + (ratio * (buckets - single)).long()).clamp_max(buckets - 1)
    return torch.where(past < single, past, far)


class T5Bias(EnergyBias):
    """b(i, j, h) = table[bucket(j − i), h] (Raffel et al. 2020, §2.1; buckets as in the authors' code).

    ``table`` (buckets, heads) is shared by a whole stack: pass the same object to each layer. It starts at 0. T5 does
    not scale q·k by 1/√d_k; its initialization of W_q compensates. ``Dot(scale=1.0, bias=…)`` is equal to it.

    Args:
        heads: number of heads, each with its own bias.
        buckets: number of buckets, a multiple of 4.
        distance: distances from this one on share the last bucket.
    """

    def __init__(self, heads: int, *, buckets: int = 32, distance: int = 128) -> None:
        super().__init__()
        if buckets < 4 or buckets % 4:
            raise ValueError(f"buckets must be a multiple of 4 (near and far, on both sides), got {buckets}")
        if distance <= buckets // 2:
            raise ValueError(f"distance must be greater than {buckets // 2} with {buckets} buckets, got {distance}")
        self.buckets, self.distance = buckets, distance
        self.table = nn.Parameter(torch.zeros(buckets, heads))

    @abstractmethod
    def bucket(self, distance: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Return the row of the table for a distance j − i."""

    def forward(
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Float[Tensor, "#batch heads query key"]:
        return self.table[self.bucket(distances(bound))].permute(0, 3, 1, 2).to(query.dtype)


class T5TwoSidedBias(T5Bias):
    """T5's bias in an encoder: half of the buckets for keys at or before the query, half for later keys."""

    def bucket(self, distance: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        side = self.buckets // 2
        return (distance > 0) * side + t5_bucket(distance.abs(), side, self.distance)


class T5CausalBias(T5Bias):
    """T5's bias in a decoder: all buckets for keys at or before the query; later keys share bucket 0."""

    def bucket(self, distance: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        return t5_bucket((-distance).clamp_min(0), self.buckets, self.distance)
