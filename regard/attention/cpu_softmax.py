"""Attention over short sequences on a CPU: the softmax form with its own backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from regard.native.short_attention import attend_by_kernels, covers_attention

# torch's softmax of bfloat16 processes registers of 32 numbers; a shorter row is processed one number at a time.
REGISTER = 32
WORTH_PADDING = 12  # with fewer keys the padding costs more than it saves


@runtime_checkable
class ByteDropout(Protocol):
    """Dropout by one random byte per number: numbers whose draw is below ``threshold`` are dropped."""

    threshold: int

    def draws(self, shape: Sequence[int]) -> UInt8[Tensor, "*shape"]:
        """Draw a random byte for every number of this shape."""


def attend_short(
    query: Float[Tensor, "batch heads query width"],
    key: Float[Tensor, "batch heads key width"],
    value: Float[Tensor, "batch heads key value"],
    added: Float[Tensor, "#batch #heads #query key"],
    empty: Bool[Tensor, "#batch #query"] | None,
    *,
    scale: float,
    dropping: nn.Module | None = None,
) -> Float[Tensor, "batch heads query value"]:
    """softmax(scale · Q Kᵀ + ``added``) V, where ``added`` is mask plus bias; 0 for queries of ``empty``.

    ``dropping`` is dropout of the weights: a module that multiplies each number by 0 or by 1 / P(keep).

    Unlike a composition of torch operations, it applies the scale together with the mask. Matrices are laid out once
    for the products of both passes; only they and the weights are stored. Rows of weights fill registers. Where
    compiled kernels are available, they compute it in one pass. It cannot be differentiated twice.
    """
    if covers_attention(query, key, value, added) and (dropping is None or isinstance(dropping, ByteDropout)):
        return _by_kernels(query, key, value, added, empty, scale, dropping)
    factors = None
    if dropping is not None:
        factors = dropping(query.new_ones(*query.shape[:3], key.shape[2]))
    context: Tensor = _Short.apply(query, key, value, added, empty, factors, scale)
    return context


def _by_kernels(
    query: Float[Tensor, "batch heads query width"],
    key: Float[Tensor, "batch heads key width"],
    value: Float[Tensor, "batch heads key value"],
    added: Float[Tensor, "#batch #heads #query key"],
    empty: Bool[Tensor, "#batch #query"] | None,
    scale: float,
    dropping: ByteDropout | None,
) -> Float[Tensor, "batch heads query value"]:
    if dropping is None or not dropping.threshold:
        return attend_by_kernels(query, key, value, added, empty, scale=scale)
    draws = dropping.draws((*query.shape[:3], key.shape[2]))
    return attend_by_kernels(
        query, key, value, added, empty, scale=scale, draws=draws, threshold=dropping.threshold
    )  # fmt: skip


class _Short(torch.autograd.Function):
    """P = softmax(s Q Kᵀ + A), C = (M ∘ P) V, where M has the factors of dropout, or 1.

    ∂V = (M ∘ P)ᵀ ∂C, ∂P = M ∘ (∂C Vᵀ), ∂A = P ∘ (∂P − each row's Σ P ∘ ∂P), ∂Q = s ∂A K, ∂K = s ∂Aᵀ Q.
    """

    @staticmethod
    def forward(
        context: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        added: Tensor,
        empty: Tensor | None,
        factors: Tensor | None,
        scale: float,
    ) -> Tensor:
        (batch, heads, queries, _), keys = query.shape, key.shape[2]
        length = REGISTER if key.dtype == torch.bfloat16 and WORTH_PADDING <= keys < REGISTER else keys
        q, k, v = _as_matrices(query, queries), _as_matrices(key, length), _as_matrices(value, length)
        energy = torch.bmm(q, k.transpose(1, 2)).view(batch, heads, queries, length)
        padded_mask = _grown(added, length, torch.finfo(added.dtype).min)
        in_place = padded_mask.dtype == energy.dtype  # allocating large memory is as slow as writing to it
        energy = torch.add(padded_mask, energy, alpha=scale, out=energy if in_place else None)
        weights = torch.softmax(energy, -1)
        if empty is not None:
            weights.masked_fill_(empty[:, None, :, None], 0.0)
        if factors is not None:
            factors = _grown(factors, length, 0.0).flatten(0, 1)
        context.save_for_backward(q, k, v, weights, factors)
        context.scale, context.keys, context.added = scale, keys, added.shape
        return torch.bmm(_times(weights.flatten(0, 1), factors), v).view(batch, heads, queries, value.shape[3])

    @staticmethod
    @once_differentiable
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None, None, None, None]:
        q, k, v, weights, factors = context.saved_tensors
        (batch, heads), keys = weights.shape[:2], context.keys
        p, u = weights.flatten(0, 1), _as_matrices(upstream, upstream.shape[2])
        to_weights = torch.bmm(u, v.transpose(1, 2))
        if factors is not None:
            to_weights.mul_(factors)
        to_energy = torch.ops.aten._softmax_backward_data(to_weights, p, -1, p.dtype)
        to_added = None
        if context.needs_input_grad[3]:
            to_added = to_energy.view_as(weights)[..., :keys].sum_to_size(context.added)
        to_energy = to_energy * context.scale if to_added is not None else to_energy.mul_(context.scale)
        gradients = (
            torch.bmm(to_energy, k),
            torch.bmm(to_energy.transpose(1, 2), q),
            torch.bmm(_times(p, factors).transpose(1, 2), u),
        )
        to_query, to_key, to_value = (x.view(batch, heads, *x.shape[1:]) for x in gradients)
        return to_query, to_key[:, :, :keys], to_value[:, :, :keys], to_added, None, None, None


def _grown(x: Tensor, length: int, value: float) -> Tensor:
    """Return x with its last dimension padded with ``value`` to this length; x itself if it is long enough."""
    return x if x.shape[-1] == length else pad(x, (0, length - x.shape[-1]), value=value)


def _times(x: Tensor, factors: Tensor | None) -> Tensor:
    return x if factors is None else x * factors


def _as_matrices(x: Float[Tensor, "batch heads key width"], length: int) -> Float[Tensor, "batch*heads {length} width"]:
    """Return one matrix per row and head, concatenated, with zeros after the last key."""
    if x.shape[2] < length:
        grown = x.new_zeros(*x.shape[:2], length, x.shape[3])
        grown[:, :, : x.shape[2]] = x
        x = grown
    return x.reshape(x.shape[0] * x.shape[1], length, x.shape[3])
