"""Attention over short sequences in training, with the kernels: one pass forward and one backward."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.native.library import ShortAttention
from regard.native.passes import FORMATS, LANES, by_position, covers, keep_scale, run_heads, with_rows

# Positions up to which one pass is faster than products of whole batches (bench/attention_paths.py).
MAX_LENGTH = 256


def covers_attention(query: Tensor, key: Tensor, value: Tensor, added: Tensor) -> bool:
    """Return whether the kernels support these tensors.

    They must be short, in training on a CPU and of the same number format, and ``added`` must need no gradient.
    """
    return (
        covers(query)
        and key.dtype == value.dtype == query.dtype
        and added.dtype in FORMATS
        and not added.requires_grad
        and 0 < min(query.shape[2], key.shape[2])
        and max(query.shape[2], key.shape[2]) <= MAX_LENGTH
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
    """Return (M ∘ softmax(scale · Q Kᵀ + ``added``)) V, 0 for queries of ``empty``; sums have 32 bits in every format.

    M is 256 / (256 − ``threshold``) if a byte of ``draws`` is at least the threshold, else 0; 1 without draws. Cost: 2
    products forward and 4 backward, of batch·heads·query·key·width each. The weights are the only new tensor that is
    saved for the gradient.
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
        output = by_position((batch, heads, queries, value.shape[3]), query.dtype)
        call = _attention_call(query, key, value, weights, draws, threshold, scale)
        call.context, call.context_step[:] = output.data_ptr(), output.stride()[:3]
        table = with_rows(added).expand(batch, heads, queries, keys)
        call.added, call.added_step[:], call.wide = (
            table.data_ptr(),
            table.stride()[:3],
            table.dtype == torch.float32,
        )
        if empty is not None:
            empty_rows = empty.expand(batch, queries)
            call.empty, call.empty_step[:] = empty_rows.data_ptr(), empty_rows.stride()
        run_heads("attend", call, query.dtype)
        context.save_for_backward(query, key, value, weights, draws)
        context.threshold, context.scale = threshold, scale
        return output

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None, None, None]:
        query, key, value, weights, draws = context.saved_tensors
        upstream = with_rows(upstream)
        call = _attention_call(query, key, value, weights, draws, context.threshold, context.scale)
        call.upstream, call.upstream_step[:] = upstream.data_ptr(), upstream.stride()[:3]
        slopes = [by_position(x.shape, x.dtype) for x in (query, key, value)]
        for name, slope in zip(("to_query", "to_key", "to_value"), slopes, strict=True):
            setattr(call, name, slope.data_ptr())
            getattr(call, f"{name}_step")[:] = slope.stride()[:3]
        run_heads("attend-back", call, query.dtype)
        to_query, to_key, to_value = slopes
        return to_query, to_key, to_value, None, None, None, None, None


def _attention_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: Tensor,
    draws: Tensor | None,
    threshold: int,
    scale: float,
) -> ShortAttention:
    """Return the call of either pass, without its outputs. The tensors must outlive it."""
    batch, heads, queries, filled = weights.shape
    call = ShortAttention(batch=batch, heads=heads, queries=queries, keys=key.shape[2], scale=scale)
    call.width, call.value_width = query.shape[3], value.shape[3]
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        setattr(call, name, tensor.data_ptr())
        getattr(call, f"{name}_step")[:] = tensor.stride()[:3]
    call.weights, call.threshold, call.dropped = weights.data_ptr(), threshold, keep_scale(threshold, query.dtype)
    call.draw = None if draws is None else draws.data_ptr()
    both, wider = call.width + call.value_width, max(call.width, call.value_width)
    call.room = (queries + filled) * both + 2 * queries * filled + (max(queries, filled) + filled) * wider
    return call
