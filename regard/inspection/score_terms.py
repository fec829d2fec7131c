"""How a weight came about: the numbers that a reader needs to work it out, in the form of a sum of terms."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from regard.attention.contract import Mechanism
from regard.attention.kernel import masked_softmax, share_heads
from regard.attention.mechanisms.additive import Additive
from regard.attention.mechanisms.cosine import Cosine
from regard.attention.mechanisms.dot import Dot
from regard.attention.mechanisms.general import General
from regard.attention.mechanisms.tanh_dot import TanhDot
from regard.attention.observe import AttentionCall

__all__ = ["Worked", "worked"]


class Worked(NamedTuple):
    """energy(t, s) = scale · Σ_i term_i + bias, softmax of it over the keys that may be seen, context = Σ α v.

    ``product``: term_i = query_i · key_i; ``additive``: term_i = vector_i · tanh(query_i + key_i); ``none``: the
    energy is made of more than a query and a key, or its weights are no softmax. All (heads, positions, width).
    """

    kind: Literal["product", "additive", "none"]
    formula: str
    scale: float
    query: Tensor
    key: Tensor
    value: Tensor
    allowed: Tensor  # (query, key): 1 where the mask lets the query look
    vector: Tensor | None = None
    bias: Tensor | None = None  # (heads, query, key)


def worked(mechanism: Mechanism, look: AttentionCall) -> Worked:
    """Of one sentence, the first of the batch."""
    heads = look.query.shape[1]
    rows, columns = look.weights.shape[2:]
    allowed = look.bound.dense()[0, :rows, :columns].expand(rows, columns).to(look.weights.dtype)
    query, key, value = (share_heads(x, heads)[0].detach() for x in (look.query, look.key, look.value))
    if isinstance(mechanism, Dot):
        return _dot(mechanism, look, query, key, value, allowed)
    if isinstance(mechanism, TanhDot):
        scale = 1 / math.sqrt(query.shape[-1]) if mechanism.scale is None else mechanism.scale
        return Worked("product", f"tanh q · tanh k × {scale:.4g}", scale, query.tanh(), key.tanh(), value, allowed)
    if isinstance(mechanism, General):
        asked = torch.einsum("htd,hde->hte", query, mechanism.weight)
        return Worked("product", "qᵀ W · k", 1.0, asked, key, value, allowed)
    if isinstance(mechanism, Cosine):
        unit = torch.nn.functional.normalize
        asked = unit(query, dim=-1) * mechanism.sharpness[:, None, None]
        return Worked("product", "g q/‖q‖ · k/‖k‖", 1.0, asked, unit(key, dim=-1), value, allowed)
    if isinstance(mechanism, Additive) and mechanism.normalise is masked_softmax:
        asked = mechanism.content.project_query(query[None])[0]
        sharpening = mechanism.content.sharpening
        return Worked(
            "additive", "vᵀ tanh(q + k)", sharpening, asked, key, value, allowed, vector=mechanism.content.vector
        )
    return Worked("none", type(mechanism).__name__, 1.0, query, key, value, allowed)


def _dot(
    mechanism: Dot, look: AttentionCall, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor
) -> Worked:  # fmt: skip
    scale = 1 / math.sqrt(query.shape[-1]) if mechanism.scale is None else mechanism.scale
    bias = None
    if mechanism.bias is not None:
        rows, columns = look.weights.shape[2:]
        asking = look.query.new_zeros(1, len(query), look.bound.query.valid.shape[1], query.shape[-1])
        bias = mechanism.bias(asking, look.bound)[0, :, :rows, :columns].detach()  # of a look that was cut
    width = query.shape[-1]
    formula = f"q·k / √{width}" if mechanism.scale is None else f"q·k × {scale:.4g}"
    return Worked(
        "product", formula + (" + bias" if bias is not None else ""), scale, query, key, value, allowed, bias=bias
    )
