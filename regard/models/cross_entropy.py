"""Cross-entropy with label smoothing, from logits or fused with the output projection."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear, pad

from regard.core.reference_mode import in_reference_mode
from regard.native.loss import RowLosses, slope_in_place
from regard.native.passes import add_to

CHUNK = 512  # rows of logits at a time: they stay in the processor's cache between the passes over them
# Without gradients: the allocator returns larger blocks to the system and allocates them again for every chunk.
EVALUATION_CHUNK = 128


class Loss(NamedTuple):
    """Sums over tokens, in nats: ``smoothed``, which training minimizes, and ``nll``, −log p of the target."""

    smoothed: Float[Tensor, ""]
    nll: Float[Tensor, ""]


def output_loss(
    features: Float[Tensor, "rows width"],
    weight: Float[Tensor, "types width"],
    bias: Float[Tensor, "types"] | None,
    target: Int[Tensor, "rows"],
    *,
    smoothing: float,
) -> Loss:
    """Compute ``smoothed_cross_entropy`` of an output projection, fused except in reference mode."""
    if in_reference_mode():
        return smoothed_cross_entropy(linear(features, weight, bias), target, smoothing=smoothing)
    if bias is not None:  # weights of an additional feature that is always 1
        features = pad(features, (0, 1), value=1.0)
        weight = torch.cat([weight, bias[:, None]], 1)
    return projected_cross_entropy(features, weight, target, smoothing=smoothing)


def smoothed_cross_entropy(
    logits: Float[Tensor, "rows types"], target: Int[Tensor, "rows"], *, smoothing: float
) -> Loss:
    """(1 − ε)·(−log p_target) + ε·mean_v(−log p_v), summed over rows (Szegedy et al. 2016; Vaswani et al. §5.4).

    The target gets mass 1 − ε + ε/V, each other type ε/V: torch's convention. fairseq and tensor2tensor spread ε
    over the V − 1 others (ε_torch = ε·V/(V − 1)); OpenNMT-py and Joey NMT over V − 2, without padding. Perplexity is
    exp(nll / rows), from the unsmoothed part.
    """
    log_p = torch.log_softmax(logits.float() if logits.dtype == torch.bfloat16 else logits, -1)
    return smoothed_nll(log_p, target, smoothing=smoothing)


def smoothed_nll(log_p: Float[Tensor, "rows types"], target: Int[Tensor, "rows"], *, smoothing: float) -> Loss:
    """Compute the loss of ``smoothed_cross_entropy`` from log-probabilities."""
    nll = -log_p.gather(1, target[:, None]).sum()
    return Loss((1 - smoothing) * nll - smoothing * log_p.mean(1).sum(), nll)


def projected_cross_entropy(
    features: Float[Tensor, "rows width"],
    weight: Float[Tensor, "types width"],
    target: Int[Tensor, "rows"],
    *,
    smoothing: float,
) -> Loss:
    """Compute ``smoothed_cross_entropy(features @ weight.T, target)`` without holding all logits.

    Value and gradient come from one pass in chunks of rows: memory CHUNK·V instead of rows·V, and the logits are read
    while they are still in the cache. Only ``smoothed`` carries a gradient.
    """
    if not torch.is_grad_enabled():
        parts = [
            smoothed_cross_entropy(linear(x, weight), y, smoothing=smoothing)
            for x, y in zip(features.split(EVALUATION_CHUNK), target.split(EVALUATION_CHUNK), strict=True)
        ]
        return Loss(*(torch.stack(sums).sum() for sums in zip(*parts, strict=True)))
    smoothed, nll = _Projected.apply(features, weight, target, smoothing)
    return Loss(smoothed, nll)


class _Projected(torch.autograd.Function):
    """d loss / d logits = p − (1 − ε)·1[target] − ε/V, computed in place of the logits, chunk by chunk."""

    @staticmethod
    def forward(
        context: Any,
        features: Float[Tensor, "rows width"],
        weight: Float[Tensor, "types width"],
        target: Int[Tensor, "rows"],
        smoothing: float,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        wide = features.dtype if features.dtype == torch.float64 else torch.float32
        types = weight.shape[0]
        to_features = torch.empty_like(features)
        to_weight = torch.zeros(weight.shape, dtype=wide, device=weight.device)
        nll, all_types = features.new_zeros((2,), dtype=wide)
        scratch = features.new_empty(min(CHUNK, len(features)), types)  # reused, so it stays in the cache
        for start in range(0, len(features), CHUNK):
            rows, y = features[start : start + CHUNK], target[start : start + CHUNK]
            slope = torch.mm(rows, weight.T, out=scratch[: len(rows)])
            losses = slope_in_place(slope, y, smoothing) or _slope_in_place(slope, y, smoothing, wide)
            nll += losses.target.sum()
            all_types += losses.types.sum()
            torch.mm(slope, weight, out=to_features[start : start + CHUNK])
            add_to(to_weight, slope.T @ rows)
        context.save_for_backward(to_features, to_weight.to(weight.dtype))
        context.mark_non_differentiable(nll)
        return (1 - smoothing) * nll + smoothing / types * all_types, nll

    @staticmethod
    def backward(
        context: Any, upstream: Float[Tensor, ""], _: Float[Tensor, ""]
    ) -> tuple[Float[Tensor, "rows width"], Float[Tensor, "types width"], None, None]:
        to_features, to_weight = context.saved_tensors
        scale = upstream.to(to_features.dtype)
        return to_features * scale, to_weight * scale, None, None


def _slope_in_place(
    logits: Float[Tensor, "rows types"], target: Int[Tensor, "rows"], smoothing: float, wide: torch.dtype
) -> RowLosses:
    """Compute ``slope_in_place`` by torch operations, for any device and dtype."""
    y, types = target[:, None], logits.shape[1]
    p = torch.softmax(logits, 1)
    nll = _nll(logits, p, y, wide)
    all_types = types * (logits.gather(1, y).to(wide) + nll)[:, 0] - logits.sum(1, dtype=wide)
    torch.sub(p, smoothing / types, out=logits)
    logits[torch.arange(len(y), device=y.device), target] += smoothing - 1  # scatter_ would copy the whole tensor
    return RowLosses(nll[:, 0], all_types)


def _nll(
    logits: Float[Tensor, "rows types"],
    p: Float[Tensor, "rows types"],
    target: Int[Tensor, "rows 1"],
    wide: torch.dtype,
) -> Float[Tensor, "rows 1"]:
    """Return −log p of each target from p, or in the rare case of underflow by a pass over all types."""
    chosen = p.gather(1, target)
    if bool((chosen < torch.finfo(p.dtype).tiny).any()):
        return -torch.log_softmax(logits.to(wide), 1).gather(1, target)
    return -chosen.to(wide).log()
