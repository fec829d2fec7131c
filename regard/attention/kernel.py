"""Attention from energies to weights to context, and the choice of how to compute it.

``attend_reference`` is the reference implementation. ``attend`` computes the same by the path that ``choose`` returns;
``with kernel("reference"):`` and ``reference_mode`` override the choice. Mechanisms never name a path.
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
from regard.attention.edge_kernel import (
    EdgeValues,
    attend_over,
    edge_dot,
    edge_layout,
    edge_softmax,
    edge_weights,
)
from regard.attention.mask import Bound
from regard.attention.structure import (
    BandStructure,
    BlocksStructure,
    CausalStructure,
    EdgesStructure,
    Structure,
)  # fmt: skip
from regard.attention.varlen_kernel import Varlen, attend_varlen, serves_varlen, varlen
from regard.attention.window_kernel import attend_window
from regard.core.reference_mode import in_reference_mode

# reference: the reference implementation. softmax: two products and a softmax. sdpa: torch's fused kernel with a mask.
# causal: the same kernel with its own causal mask. window: blocks of queries and the keys around them. varlen: torch's
# FlashAttention of sequences without padding. edges: only the edges of a graph.
Kernel = Literal["reference", "softmax", "sdpa", "causal", "window", "varlen", "edges"]
Normalize = Literal["softmax", "sigmoid"]
_forced: ContextVar[Kernel | None] = ContextVar("kernel", default=None)

# Up to this many keys the plain softmax form beats the fused kernel's backward on a CPU (bench/attention_paths.py).
SHORT = 256
# Exception: from this many keys on, the fused kernel with its own causal mask is faster in float32 (same benchmark).
WHOLE = 64
# A band is faster if its width is at most this fraction of the keys (bench/attention_paths.py).
NARROW = 1 / 4

Energy = Float[Tensor, "batch heads query key"]
Weights = Float[Tensor, "batch heads query key"]
Context = Float[Tensor, "batch heads query value"]
Bias = Float[Tensor, "#batch heads query key"]


@contextmanager
def kernel(name: Kernel) -> Iterator[None]:
    """Force this path inside the block."""
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
    structure: Structure | None = None,
    ragged: bool = False,
    dropping: bool = False,
    whole: bool = False,
    forced: Kernel | None = None,
) -> Kernel:
    """Return the path that computes this attention. A pure function, tested as a table.

    Only the reference path returns weights. On a CPU the fused kernel's backward costs several times the plain form's
    on short sequences. Everywhere else the fused kernel is faster and never materializes the weights. Dropout of
    weights draws from ``regard.core.randomness``, which torch's kernels cannot use. ``ragged``: mask, sizes and dtype
    suit the kernel of sequences without padding, and it would save padding or work between packed documents. ``whole``:
    nothing is padded, and numbers have 32 bits or more. A forced path that cannot compute this structure is replaced by
    "sdpa".
    """
    if need_weights:
        return "reference"
    supported = {
        "causal": isinstance(structure, CausalStructure),
        "window": isinstance(structure, BandStructure),
        "varlen": ragged,
        "edges": isinstance(structure, EdgesStructure),
    }
    path: Kernel
    if forced is None and supported["edges"]:
        path = "edges"
    elif forced is not None:
        path = forced if supported.get(forced, True) else "sdpa"
    elif device == "cpu" and gradient and keys <= SHORT:
        path = "causal" if supported["causal"] and whole and keys >= WHOLE else "softmax"
    elif isinstance(structure, BandStructure) and keys > SHORT and structure.width <= NARROW * keys:
        path = "varlen" if ragged and not dropping else "window"
    elif supported["varlen"]:
        path = "varlen"
    else:
        path = "causal" if supported["causal"] else "sdpa"
    return "softmax" if dropping and path not in ("reference", "window", "edges") else path


def masked_softmax(
    energy: Float[Tensor, "*batch query key"], allowed: Bool[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch query key"]:
    """softmax over the allowed keys; a row without any has weights 0 and gradient 0."""
    if not energy.shape[-1]:
        return energy
    energy = energy.masked_fill(~allowed, float("-inf"))
    top = energy.detach().amax(-1, keepdim=True)
    unnormalized = torch.exp(energy - top.masked_fill(top == float("-inf"), 0.0))
    total = unnormalized.sum(-1, keepdim=True)
    return unnormalized / total.masked_fill(total == 0, 1.0)


def masked_sigmoid(
    energy: Float[Tensor, "*batch query key"], allowed: Bool[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch query key"]:
    """σ(e_j) / Σ_k σ(e_k) over the allowed keys: "smoothing" (Chorowski et al. 2015, §2.3). A row without any is 0.

    σ is at most 1, so no key dominates: the weight spreads over many keys. Computed as softmax(log σ(e)), which is
    equal and does not divide 0 by 0 if all energies are low.
    """
    return masked_softmax(logsigmoid(energy), allowed)


def normalizer(
    name: str,
) -> Callable[
    [Float[Tensor, "*batch query key"], Bool[Tensor, "*#batch query key"]], Float[Tensor, "*batch query key"]
]:
    """Return the function from energies to weights, by the name of the option ``normalize``."""
    table = {"softmax": masked_softmax, "sigmoid": masked_sigmoid}
    if name not in table:
        raise ValueError(f"normalize must be one of {', '.join(table)}, got {name!r}")
    return table[name]


def weigh(
    energy: Energy,
    bound: Bound,
    normalize: Callable[[Energy, Bool[Tensor, "batch 1 query key"]], Weights] = masked_softmax,
) -> Weights:
    """Return weights from energies, 0 where the mask hides a key."""
    return normalize(energy, bound.sdpa())


def read(weights: Weights, value: Float[Tensor, "batch heads key value"], dropping: nn.Module | None = None) -> Context:
    """context_i = Σ_j α_ij v_j, of weights after optional ``dropping``."""
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

    The returned weights are those before ``dropping``, an optional dropout of weights. Keys that no query of the row
    may attend to (padding, unwritten cache) may hold any values, including NaN.
    """
    key, value = (share_heads(zero_masked(x, bound), query.shape[1]) for x in (key, value))
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
    bias: Bias | EdgeValues | None = None,
    dropping: nn.Module | None = None,
    need_weights: bool = False,
) -> tuple[Context, Weights | None]:
    """Compute ``attend_reference`` by the path that ``choose`` returns.

    ``scale`` None is 1/√d_k, 1 is unscaled. ``bias`` is added to the scaled energies: one row may serve the whole
    batch, or with edges it may hold one number per edge. The number of key heads divides that of heads (grouped-query
    attention). ``dropping`` drops weights. Returns the context, and with ``need_weights`` the weights before dropout.
    Cost: batch·heads·query·key·(d_k + d_v) multiply-adds.
    """
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if not need_weights and (context := _attend_edges(query, key, value, bound, scale, bias, dropping)) is not None:
        return context, None
    bias = bias.table() if isinstance(bias, EdgeValues) else bias
    inputs = (query, key, value) if bias is None else (query, key, value, bias)
    gradient = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    # A bias is already a query × key table, and the table of a single query is one row: no structure saves memory.
    structure = bound.structure() if bias is None and query.shape[2] > 1 else None
    ragged = _ragged(bound, structure) if bias is None and serves_varlen(query, key, value) else None
    path = choose(
        need_weights=need_weights,
        device=query.device.type,
        gradient=gradient,
        keys=key.shape[2],
        structure=structure,
        ragged=ragged is not None,
        dropping=dropping is not None,
        whole=isinstance(structure, CausalStructure) and query.dtype != torch.bfloat16 and not bound.has_padding,
        forced=_forced.get() or ("reference" if in_reference_mode() else None),
    )
    if path == "reference":
        context, weights = attend_reference(query, key, value, bound, scale=scale, bias=bias, dropping=dropping)
        return context, weights if need_weights else None
    if path in ("softmax", "edges"):  # "edges" with padding needs a table
        return _attend_softmax(query, key, value, bound, scale, bias, dropping), None
    if path == "window" and isinstance(structure, BandStructure):
        key, value = (share_heads(x, query.shape[1]) for x in (key, value))
        return attend_window(query, key, value, bound, structure, scale=scale, dropping=dropping), None
    if path == "varlen" and ragged is not None:
        return attend_varlen(query, key, value, bound, ragged, scale=scale), None
    return _attend_fused(query, key, value, bound, scale, bias, causal=path == "causal"), None


def attend_pairs(
    query: Float[Tensor, "batch heads query width"],
    key: Float[Tensor, "batch prepared_heads key prepared"],
    value: Float[Tensor, "batch key_heads key value"],
    bound: Bound,
    energy: Callable[[Tensor, Tensor], Tensor],
    *,
    dropping: nn.Module | None = None,
    need_weights: bool = False,
) -> tuple[Context, Weights | None]:
    """Attention whose ``energy`` is a function of pairs, (batch, heads, *pairs, width) each: by table, or by edges.

    Returns the context, and the weights before dropout if requested.
    """
    heads = query.shape[1]
    if not need_weights and (edges := _edges(bound)) is not None:
        layout = edge_layout(edges.index, query.shape[2], key.shape[2])
        weights = edge_weights(energy, query, share_heads(key, heads), layout)
        return attend_over(weights, share_heads(value, heads), layout, dropping), None
    key, value = (share_heads(zero_masked(x, bound), heads) for x in (key, value))
    table = weigh(energy(query[:, :, :, None], key[:, :, None]), bound)
    return read(table, value, dropping), table if need_weights else None


def _edges(bound: Bound) -> EdgesStructure | None:
    """Return the edges if they alone determine which pairs attend, and no other path is forced."""
    structure = bound.structure()
    forced = _forced.get() or ("reference" if in_reference_mode() else None)
    if not isinstance(structure, EdgesStructure) or bound.has_padding:
        return None
    path = choose(
        need_weights=False, device=bound.query.valid.device.type, gradient=True, keys=bound.key.valid.shape[1],
        structure=structure, forced=forced,
    )  # fmt: skip
    return structure if path == "edges" else None


def _attend_edges(
    query: Float[Tensor, "batch heads query width"],
    key: Float[Tensor, "batch key_heads key width"],
    value: Float[Tensor, "batch key_heads key value"],
    bound: Bound,
    scale: float,
    bias: Bias | EdgeValues | None,
    dropping: nn.Module | None,
) -> Context | None:
    """Return the context from products of the edges, or None if edges do not determine the mask.

    Unlike ``attend_pairs``, it does not gather both ends of each edge first.
    """
    edges = _edges(bound) if query.shape[2] > 1 and not isinstance(bias, Tensor) else None
    if edges is None:
        return None
    key, value = (share_heads(x, query.shape[1]) for x in (key, value))
    layout = edge_layout(edges.index, query.shape[2], key.shape[2])
    energy = edge_dot((scale * query).flatten(0, 1), key.flatten(0, 1), layout)
    if isinstance(bias, EdgeValues):
        energy = (energy.unflatten(0, query.shape[:2]) + bias.values).flatten(0, 1)
    return attend_over(edge_softmax(energy, layout), value, layout, dropping)


def _ragged(bound: Bound, structure: Structure | None) -> Varlen | None:
    """Return sequences without padding, if they save padding or keys outside a band or block; otherwise None."""
    return varlen(bound) if bound.has_padding or isinstance(structure, BandStructure | BlocksStructure) else None


def _attend_softmax(
    query: Float[Tensor, "batch heads query width"],
    key: Float[Tensor, "batch key_heads key width"],
    value: Float[Tensor, "batch key_heads key value"],
    bound: Bound,
    scale: float,
    bias: Bias | None,
    dropping: nn.Module | None,
) -> Context:
    """Compute the softmax form: the fastest for short sequences, forward and backward."""
    key, value = (share_heads(x, query.shape[1]) for x in (key, value))
    blocked = bound.additive(query.dtype)
    added = blocked if bias is None else bias + blocked
    return attend_short(query, key, value, added, bound.empty(), scale=scale, dropping=dropping)


def _attend_fused(
    query: Float[Tensor, "batch heads query width"],
    key: Float[Tensor, "batch key_heads key width"],
    value: Float[Tensor, "batch key_heads key value"],
    bound: Bound,
    scale: float,
    bias: Bias | None,
    *,
    causal: bool,
) -> Context:
    """Compute torch's fused kernel, causal by itself or under a mask that is no larger than necessary.

    Padding is at the end of a row, so causality hides it from all queries except padded ones. These would see it: they
    get context 0 and no gradient.
    """
    mask = None
    if bias is not None:
        mask = bias.masked_fill(~bound.narrow()[:, None], float("-inf"))
    elif not causal and bound.parts:
        mask = bound.narrow()[:, None]
    grouped = key.shape[1] != query.shape[1]
    context = scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=grouped
    )
    return context.masked_fill(~bound.query.valid[:, None, :, None], 0.0) if causal and bound.has_padding else context


def share_heads(x: Float[Tensor, "batch key_heads key width"], heads: int) -> Float[Tensor, "batch {heads} key width"]:
    """Repeat each key head for heads / key heads query heads, neighbors first (Ainslie et al. 2023)."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def zero_masked(
    x: Float[Tensor, "batch key_heads key width"], bound: Bound
) -> Float[Tensor, "batch key_heads key width"]:
    """Return keys or values with 0 where no query of the row may attend."""
    unseen = ~bound.narrow().any(1)
    return x.masked_fill(unseen[:, None, :, None], 0.0) if x.shape[2] else x
