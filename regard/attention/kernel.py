"""From energies to weights to context, and the one choice of how to compute it.

``attend_reference`` is the textbook and always right. ``attend`` computes the same by the path that ``choose``
names; ``with kernel("reference"):`` and ``as_textbook`` override the choice. Mechanisms never name a path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, scaled_dot_product_attention

from regard.attention.cpu_softmax import attend_short
from regard.attention.mask import Bound
from regard.core.reference_mode import textbook

__all__ = [
    "Normalise", "attend", "attend_reference", "blank_unseen", "choose", "kernel", "masked_sigmoid", "masked_softmax",
    "normaliser", "read", "share_heads", "weigh",
]  # fmt: skip

Kernel = Literal["reference", "softmax", "sdpa"]
Normalise = Literal["softmax", "sigmoid"]
_forced: ContextVar[Kernel | None] = ContextVar("kernel", default=None)

# Below this many keys the plain softmax form beats the fused kernel's backward on a CPU (bench/kernels.py).
SHORT = 256

Energy = Float[Tensor, "batch heads query key"]
Weights = Float[Tensor, "batch heads query key"]
Context = Float[Tensor, "batch heads query value"]
Bias = Float[Tensor, "#batch heads query key"]


@contextmanager
def kernel(name: Kernel) -> Iterator[None]:
    """Use this path inside the block, whatever ``choose`` says."""
    token = _forced.set(name)
    try:
        yield
    finally:
        _forced.reset(token)


def choose(
    *,
    need_weights: bool,
    device: str,
    gradient: bool,
    keys: int,
    dropping: bool = False,
    forced: Kernel | None = None,
) -> Kernel:
    """Which path computes this attention: a pure function, tested as a table.

    Weights come out of the reference alone. On a CPU the fused kernel's backward costs several times the plain
    form's on short sequences; everywhere else it wins in time and never materialises the weights. Dropout of weights
    draws from ``regard.core.randomness``, which the fused kernel cannot.
    """
    if need_weights:
        return "reference"
    if dropping:
        return "softmax" if forced in (None, "sdpa") else forced
    if forced is not None:
        return forced
    if device == "cpu" and gradient and keys <= SHORT:
        return "softmax"
    return "sdpa"


def masked_softmax(
    energy: Float[Tensor, "*batch query key"], allowed: Bool[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch query key"]:
    """softmax over the allowed keys; a row with none has weights 0 and gradient 0."""
    if not energy.shape[-1]:
        return energy
    energy = energy.masked_fill(~allowed, float("-inf"))
    top = energy.detach().amax(-1, keepdim=True)
    unnormalised = torch.exp(energy - top.masked_fill(top == float("-inf"), 0.0))
    total = unnormalised.sum(-1, keepdim=True)
    return unnormalised / total.masked_fill(total == 0, 1.0)


def masked_sigmoid(
    energy: Float[Tensor, "*batch query key"], allowed: Bool[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch query key"]:
    """σ(e_j) / Σ_k σ(e_k) over the allowed keys: "smoothing" (Chorowski et al. 2015, §2.3). A row with none is 0.

    σ is at most 1, so no key outshouts the others: weight spreads over many keys. Computed as softmax(log σ(e)),
    which is the same and does not divide 0 by 0 where every energy is low.
    """
    return masked_softmax(logsigmoid(energy), allowed)


def normaliser(
    name: str,
) -> Callable[
    [Float[Tensor, "*batch query key"], Bool[Tensor, "*#batch query key"]], Float[Tensor, "*batch query key"]
]:
    """How energies become weights, by the name an option gives it."""
    table = {"softmax": masked_softmax, "sigmoid": masked_sigmoid}
    if name not in table:
        raise ValueError(f"normalise is one of {', '.join(table)}, not {name!r}")
    return table[name]


def weigh(
    energy: Energy,
    bound: Bound,
    normalise: Callable[[Energy, Bool[Tensor, "batch 1 query key"]], Weights] = masked_softmax,
) -> Weights:
    """Energies to weights, 0 where the mask forbids."""
    return normalise(energy, bound.sdpa())


def read(weights: Weights, value: Float[Tensor, "batch heads key value"], dropping: nn.Module | None = None) -> Context:
    """context_i = Σ_j α_ij v_j, of weights after ``dropping`` where it is given."""
    return torch.einsum("bhts,bhsv->bhtv", weights if dropping is None else dropping(weights), value)


def attend_reference(
    query: Float[Tensor, "batch heads query width"],
    key: Float[Tensor, "batch key_heads key width"],
    value: Float[Tensor, "batch key_heads key value"],
    bound: Bound,
    *,
    scale: float,
    bias: Bias | None = None,
    dropping: nn.Module | None = None,
) -> tuple[Context, Weights]:
    """softmax(scale · Q Kᵀ + bias) V over the allowed keys (Vaswani et al. 2017, Eq. 1): context and weights.

    The weights are those before ``dropping``, dropout of weights, where it is given. Columns that no query of the row
    may look at (padding, unwritten cache) may hold anything, NaN included.
    """
    key, value = (share_heads(blank_unseen(x, bound), query.shape[1]) for x in (key, value))
    energy = scale * torch.einsum("bhtd,bhsd->bhts", query, key)
    weights = weigh(energy if bias is None else energy + bias, bound)
    return read(weights, value, dropping), weights


def attend(
    query: Float[Tensor, "batch heads query width"],
    key: Float[Tensor, "batch key_heads key width"],
    value: Float[Tensor, "batch key_heads key value"],
    bound: Bound,
    *,
    scale: float | None = None,
    bias: Bias | None = None,
    dropping: nn.Module | None = None,
    need_weights: bool = False,
) -> tuple[Context, Weights | None]:
    """``attend_reference`` by the path that ``choose`` names; ``scale`` is 1/√d_k unless given (1: unscaled).

    ``bias`` is added to the scaled energies; one row of it may serve the whole batch. The number of key heads divides
    the number of heads (grouped-query attention). ``dropping`` is dropout of the weights before they read values.
    Returns the context, and the weights, before dropout, if asked for.
    Cost: batch·heads·query·key·(d_k + d_v) multiply-adds.
    """
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    inputs = (query, key, value) if bias is None else (query, key, value, bias)
    gradient = torch.is_grad_enabled() and any(each.requires_grad for each in inputs)
    path = choose(
        need_weights=need_weights,
        device=query.device.type,
        gradient=gradient,
        keys=key.shape[2],
        dropping=dropping is not None,
        forced=_forced.get() or ("reference" if textbook() else None),
    )
    if path == "reference":
        context, weights = attend_reference(query, key, value, bound, scale=scale, bias=bias, dropping=dropping)
        return context, weights if need_weights else None
    if path == "softmax":
        return _attend_softmax(query, key, value, bound, scale, bias, dropping), None
    grouped = key.shape[1] != query.shape[1]
    mask = bound.sdpa() if bias is None else bias.masked_fill(~bound.sdpa(), float("-inf"))
    context = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=grouped)
    return context, None


def _attend_softmax(
    query: Float[Tensor, "batch heads query width"],
    key: Float[Tensor, "batch key_heads key width"],
    value: Float[Tensor, "batch key_heads key value"],
    bound: Bound,
    scale: float,
    bias: Bias | None,
    dropping: nn.Module | None,
) -> Context:
    """The softmax form: the quickest, forward and backward, of short sequences."""
    key, value = (share_heads(x, query.shape[1]) for x in (key, value))
    blocked = bound.additive(query.dtype)
    added = blocked if bias is None else bias + blocked
    return attend_short(query, key, value, added, bound.empty(), scale=scale, dropping=dropping)


def share_heads(x: Float[Tensor, "batch key_heads key width"], heads: int) -> Float[Tensor, "batch {heads} key width"]:
    """Each key head serves heads / key heads query heads, neighbours first (Ainslie et al. 2023)."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def blank_unseen(
    x: Float[Tensor, "batch key_heads key width"], bound: Bound
) -> Float[Tensor, "batch key_heads key width"]:
    """Keys or values with 0 in the columns that no query of the row may look at."""
    unseen = ~bound.dense().any(1)
    return x.masked_fill(unseen[:, None, :, None], 0.0) if x.shape[2] else x
