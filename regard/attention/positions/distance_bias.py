"""Biases of energies by the distance of query and key: ALiBi and T5's buckets."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from regard.attention.mask import Bound


def distances(bound: Bound) -> Int[Tensor, "#batch query key"]:
    """Distance j − i of every pair in absolute positions, right with a cache; one row where all rows agree."""
    query, key = bound.query, bound.key
    if bound.placed:
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
        """Bias of every pair, in the number format and for the number of heads of ``query``."""


def alibi_slopes(heads: int, *, device: torch.device | None = None) -> Float64[Tensor, "{heads}"]:
    """m_h = 2^(−8h/H), h = 1 … H: for 8 heads 1/2, 1/4, … 1/256 (Press et al. 2022, §3).

    Where H is no power of two: those of the largest power P below it, then every other one of those of 2P, as the
    authors' code has it.
    """
    power = 2 ** int(math.log2(heads))
    exponent = torch.arange(1, power + 1, dtype=torch.float64, device=device) / power
    between = (2 * torch.arange(heads - power, dtype=torch.float64, device=device) + 1) / (2 * power)
    return torch.exp2(-8 * torch.cat([exponent, between]))


class Alibi(EnergyBias):
    """b(i, j, h) = −m_h · |i − j|: attention with linear biases (Press et al. 2022, §3); m is ``alibi_slopes``.

    Nothing is learned, and the bias is not divided by √d_k. The paper is causal, j ≤ i; looking both ways,
    −m · |i − j| is what its authors suggest. Slopes fall off, so a model trained on short sequences reads longer ones.
    """

    def forward(
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Float[Tensor, "#batch heads query key"]:
        slopes = alibi_slopes(query.shape[1], device=query.device)
        # Products in float64: in bfloat16 distances beyond 256 would already be rounded before they are weighted.
        return (-slopes[:, None, None] * distances(bound).abs()[:, None]).to(query.dtype)


def t5_bucket(past: Int[Tensor, "*shape"], buckets: int, longest: int) -> Int[Tensor, "*shape"]:
    """Bucket, from 0, of a distance r ≥ 0: half of ``buckets`` hold one distance each, the rest are logarithmic.

    With m = buckets / 2: r below m, else m + ⌊(buckets − m) · ln(r/m) / ln(longest/m)⌋, and never beyond the last.
    In float32 and in this order, as Hugging Face computes it: powers of two lie on the edges of buckets.
    """
    single = buckets // 2
    ratio = torch.log(past.clamp_min(1).float() / single) / math.log(longest / single)
    far = (single + (ratio * (buckets - single)).long()).clamp_max(buckets - 1)
    return torch.where(past < single, past, far)


class T5Bias(EnergyBias):
    """b(i, j, h) = table[bucket(j − i), h] (Raffel et al. 2020, §2.1; buckets as in the authors' code).

    ``table`` (buckets, heads) is one for a whole stack: give each layer the same object. It starts at 0. T5 itself
    has no 1/√d_k on q·k, which its initialization of W_q makes up for: ``Dot(scale=1.0, bias=…)`` is that.
    """

    def __init__(self, heads: int, *, buckets: int = 32, distance: int = 128) -> None:
        super().__init__()
        if buckets < 4 or buckets % 4:
            raise ValueError(f"buckets are a multiple of 4 (near and far, on both sides), not {buckets}")
        if distance <= buckets // 2:
            raise ValueError(f"the farthest of {buckets} buckets begins beyond {buckets // 2}, not at {distance}")
        self.buckets, self.distance = buckets, distance
        self.table = nn.Parameter(torch.zeros(buckets, heads))

    @abstractmethod
    def bucket(self, distance: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Row of the table for a distance j − i."""

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
