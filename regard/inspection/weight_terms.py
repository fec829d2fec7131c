"""Terms of an attention weight: the numbers from which a reader can compute it by hand."""

from __future__ import annotations

from typing import Literal, NamedTuple

from torch import Tensor

from regard.attention.contract import Mechanism
from regard.attention.kernel import share_heads
from regard.attention.observe import AttentionCall
from regard.attention.score import Score


class WeightTerms(NamedTuple):
    """energy(t, s) = scale · Σ_i term_i + bias; weights α = its softmax over the allowed keys; context = Σ α v.

    ``product``: term_i = query_i · key_i. ``additive``: term_i = vector_i · tanh(query_i + key_i). ``none``: the energy
    depends on more than one query and one key, or the weights are no softmax. Query, key and value are (heads,
    positions, width).
    """

    kind: Literal["product", "additive", "none"]
    formula: str
    scale: float
    query: Tensor
    key: Tensor
    value: Tensor
    allowed: Tensor  # (query, key): 1 where the mask lets the query look
    vector: Tensor | None = None  # (heads, width)
    bias: Tensor | None = None  # (heads, query, key)


def weight_terms(mechanism: Mechanism, look: AttentionCall) -> WeightTerms:
    """The terms of the first sentence of the batch."""
    heads = look.query.shape[1]
    rows, columns = look.weights.shape[2:]
    allowed = look.bound.dense()[0, :rows, :columns].expand(rows, columns).to(look.weights.dtype)
    query, key, value = (share_heads(x, heads)[0].detach() for x in (look.query, look.key, look.value))
    terms = mechanism.terms(query, key, look.bound) if isinstance(mechanism, Score) else None
    if terms is None:
        return WeightTerms("none", type(mechanism).__name__, 1.0, query, key, value, allowed)
    return WeightTerms(
        terms.kind, terms.formula, terms.scale, terms.query, terms.key, value, allowed, terms.vector, terms.bias
    )
