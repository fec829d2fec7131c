"""Attention over short sequences in training, forward and backward, by the kernels: each a single pass."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.native.library import ShortAttention
from regard.native.passes import FORMATS, LANES, by_place, covers, keep_scale, run_heads, with_rows

# Columns up to which one pass beats products of whole batches (bench/attention_paths.py).
LONGEST = 256


def covers_attention(query: Tensor, key: Tensor, value: Tensor, added: Tensor) -> bool:
    """Whether the kernels take these: of training on a CPU, short, one number format, and no gradient of ``added``."""
    return (
        covers(query)
        and key.dtype == value.dtype == query.dtype
        and added.dtype in FORMATS
        and not added.requires_grad
        and 0 < min(query.shape[2], key.shape[2])
        and max(query.shape[2], key.shape[2]) <= LONGEST
        and query.shape[3] % LANES == value.shape[3] % LANES == 0
        and type(key) is type(value) is Tensor
    )


def attend_by_kernels(
    query: Float[Tensor, "batch heads query width"],
    key: Float[Tensor, "batch heads key width"],
    value: Float[Tensor, "batch heads key value"],
    added: Float[Tensor, "#batch #heads #query key"],
    empty: Bool[Tensor, "#batch #query"] | None,
    *,
    scale: float,
    draws: UInt8[Tensor, "batch heads query key"] | None = None,
    threshold: int = 0,
) -> Float[Tensor, "batch heads query value"]:
    """(M ∘ softmax(scale · Q Kᵀ + ``added``)) V, 0 for queries of ``empty``; sums are of 32 bits in every format.

    M is 256 / (256 − ``threshold``) where a byte of ``draws`` is at least the threshold, else 0; 1 without draws.
    Cost: 2 products forward and 4 backward, of batch·heads·query·key·width each; of what is kept for the gradient the
    weights alone are new.
    """
    context: Tensor = _ShortAttention.apply(query, key, value, added, empty, draws, threshold, scale)
    return context


class _ShortAttention(torch.autograd.Function):
    """∂V = (M ∘ P)ᵀ ∂C, ∂P = M ∘ (∂C Vᵀ), ∂A = P ∘ (∂P − each row's Σ P ∘ ∂P), ∂Q = s ∂A K, ∂K = s ∂Aᵀ Q."""

    @staticmethod
    def forward(
        context: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        added: Tensor,
        empty: Tensor | None,
        draws: Tensor | None,
        threshold: int,
        scale: float,
    ) -> Tensor:
        query, key, value = (with_rows(x) for x in (query, key, value))
        (batch, heads, queries, _), keys = query.shape, key.shape[2]
        filled = -(-keys // LANES) * LANES
        weights = torch.empty(batch, heads, queries, filled, dtype=query.dtype)
        found = by_place((batch, heads, queries, value.shape[3]), query.dtype)
        given = _given(query, key, value, weights, draws, threshold, scale)
        given.context, given.context_step[:] = found.data_ptr(), found.stride()[:3]
        table = with_rows(added).expand(batch, heads, queries, keys)
        given.added, given.added_step[:], given.wide = (
            table.data_ptr(),
            table.stride()[:3],
            table.dtype == torch.float32,
        )
        if empty is not None:
            seen = empty.expand(batch, queries)
            given.empty, given.empty_step[:] = seen.data_ptr(), seen.stride()
        run_heads("attend", given, query.dtype)
        context.save_for_backward(query, key, value, weights, draws)
        context.threshold, context.scale = threshold, scale
        return found

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None, None, None]:
        query, key, value, weights, draws = context.saved_tensors
        upstream = with_rows(upstream)
        given = _given(query, key, value, weights, draws, context.threshold, context.scale)
        given.upstream, given.upstream_step[:] = upstream.data_ptr(), upstream.stride()[:3]
        slopes = [by_place(x.shape, x.dtype) for x in (query, key, value)]
        for name, slope in zip(("to_query", "to_key", "to_value"), slopes, strict=True):
            setattr(given, name, slope.data_ptr())
            getattr(given, f"{name}_step")[:] = slope.stride()[:3]
        run_heads("attend-back", given, query.dtype)
        to_query, to_key, to_value = slopes
        return to_query, to_key, to_value, None, None, None, None, None


def _given(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: Tensor,
    draws: Tensor | None,
    threshold: int,
    scale: float,
) -> ShortAttention:
    """Call of either pass, but for what it writes. The tensors must outlive it."""
    batch, heads, queries, filled = weights.shape
    given = ShortAttention(batch=batch, heads=heads, queries=queries, keys=key.shape[2], scale=scale)
    given.width, given.value_width = query.shape[3], value.shape[3]
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        setattr(given, name, tensor.data_ptr())
        getattr(given, f"{name}_step")[:] = tensor.stride()[:3]
    given.weights, given.threshold, given.dropped = weights.data_ptr(), threshold, keep_scale(threshold, query.dtype)
    given.draw = None if draws is None else draws.data_ptr()
    both, wider = given.width + given.value_width, max(given.width, given.value_width)
    given.room = (queries + filled) * both + 2 * queries * filled + (max(queries, filled) + filled) * wider
    return given
