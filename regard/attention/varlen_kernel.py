"""Attention of concatenated sequences without padding: torch's FlashAttention on CUDA."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, Int32
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.mask import Bound, Causal, Padding, Segments, Window
from regard.attention.span import Span

MAX_WIDTH = 256  # features of a head, in FlashAttention
WIDTH_MULTIPLE = 8


class Varlen(NamedTuple):
    """Concatenated sequences without padding, in the format of FlashAttention's ragged kernels.

    The first offset is 0. ``left`` and ``right``: number of keys that a query may attend to before and after its own
    position within its sequence; −1: no limit.
    """

    query_offsets: Int32[Tensor, "sequences+1"]
    key_offsets: Int32[Tensor, "sequences+1"]
    longest_query: int
    longest_key: int
    left: int
    right: int


def serves_varlen(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Return whether the kernel supports these tensors: on CUDA, in half precision, with one supported width."""
    width = query.shape[-1]
    return (
        query.is_cuda
        and query.dtype in (torch.float16, torch.bfloat16)
        and width == key.shape[-1] == value.shape[-1]
        and width <= MAX_WIDTH
        and width % WIDTH_MULTIPLE == 0
        and _kernel() is not None
    )


@cache
def _kernel() -> Callable[..., Any] | None:
    """Return torch's ``varlen_attn`` if it supports a window, a scale and grouped heads, else None.

    Imported on first use: it also imports torch's compiler, which takes more than a second.
    """
    from torch.nn.attention.varlen import varlen_attn

    complete = {"window_size", "scale", "enable_gqa"} <= set(inspect.signature(varlen_attn).parameters)
    return varlen_attn if complete else None


def varlen(bound: Bound) -> Varlen | None:
    """Return sequences without padding for a mask of padding, causality, windows and segments; None for other masks.

    The segments of a row must ascend, and some position must be valid. Cost: batch·length, and reads the span.
    """
    types = {type(part) for part in bound.parts}
    if Padding not in types or not types <= {Padding, Causal, Window, Segments}:
        return None
    if any(isinstance(part, Window) and part.sinks for part in bound.parts):
        return None
    if types != {Padding} and not bound.same_columns:
        return None
    lengths = (bound.query.length, bound.key.length)
    if Segments in types:
        pieces = _segment_lengths(bound.key)
        if pieces is None:
            return None
        lengths = (pieces, pieces)
    reaches = [part.reach for part in bound.parts if part.reach is not None]
    if reaches and bound.offset is None:
        return None
    longest = [int(n.max()) if len(n) else 0 for n in lengths]
    if 0 in longest:
        return None
    offsets = [pad(n.cumsum(0), (1, 0)).to(torch.int32) for n in lengths]
    ends = (min((reach[side] for reach in reaches), default=math.inf) for side in (0, 1))
    left, right = (-1 if math.isinf(end) else int(end) for end in ends)
    return Varlen(offsets[0], offsets[1], longest[0], longest[1], left, right)


def attend_varlen(
    query: Float[Tensor, "batch heads query width"],
    key: Float[Tensor, "batch key_heads key width"],
    value: Float[Tensor, "batch key_heads key width"],
    bound: Bound,
    ragged: Varlen,
    *,
    scale: float,
) -> Float[Tensor, "batch heads query width"]:
    """softmax(scale · Q Kᵀ) V of each sequence of ``ragged``; padded positions are excluded and get 0.

    Cost: that of the sequences' own lengths, and for windows only their band. No weights are stored.
    """
    valid_query, valid_key = bound.query.valid, bound.key.valid
    kernel = _kernel()
    assert kernel is not None, "serves_varlen checks this"
    attended = kernel(
        query.transpose(1, 2)[valid_query],
        key.transpose(1, 2)[valid_key],
        value.transpose(1, 2)[valid_key],
        ragged.query_offsets,
        ragged.key_offsets,
        ragged.longest_query,
        ragged.longest_key,
        scale=scale,
        window_size=(ragged.left, ragged.right),
        enable_gqa=key.shape[1] != query.shape[1],
    )
    context = query.new_zeros(query.shape).transpose(1, 2).contiguous()
    return context.index_put((valid_query,), attended).transpose(1, 2)


def _segment_lengths(span: Span) -> Int[Tensor, "sequences"] | None:
    """Return the number of valid positions of each segment; None if the segments of a row do not ascend."""
    both_valid = span.valid[:, 1:] & span.valid[:, :-1]
    steps = span.read("segment").diff(dim=1)
    if bool((both_valid & (steps < 0)).any()):
        return None
    first = span.valid.clone()
    first[:, 1:] &= ~both_valid | (steps != 0)
    segment_index = first[span.valid].cumsum(0) - 1
    return torch.bincount(segment_index)
