"""The call of an attention, and its energies and weights term by term, for display."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from regard.attention.catalog import MECHANISMS
from regard.attention.contract import Mechanism
from regard.attention.kernel import share_heads
from regard.attention.mask import Bound
from regard.attention.score import Score

NAMES = {mechanism: name for name, mechanism in MECHANISMS.items()}  # config name of each mechanism class
Positions = slice | Tensor  # of queries or keys


class AttentionCall(NamedTuple):
    """Input and output of one attention: queries, prepared keys, values, the bound mask, and the weights."""

    query: Tensor  # (batch, heads, query, width)
    key: Tensor  # (batch, prepared_heads, key, prepared)
    value: Tensor  # (batch, key_heads, key, value)
    bound: Bound
    weights: Tensor  # (batch, heads, query, key)
    mechanism: Mechanism

    def extended(self, later: AttentionCall) -> AttentionCall:
        """Return this call followed by the queries of a later call of the same pass to the same keys."""
        query = torch.cat([self.query, later.query], 2)
        return later._replace(query=query, weights=torch.cat([self.weights, later.weights], 2))

    def allowed(self, row: int = 0) -> Tensor:
        """Return (query, key): whether the mask allows a query to attend to a key, for one row of the batch."""
        queries, keys = self.weights.shape[2:]
        return self.bound.dense()[row, :queries, :keys].expand(queries, keys)


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


class AttentionSource(NamedTuple):
    """The attention from which a map was recorded.

    Attributes:
        name: of the attention in its network (``observe.mechanisms``).
        call: the recorded call.
        row: the row of the batch.
        queries, keys: the positions of the map in the call.
    """

    name: str
    call: AttentionCall
    row: int = 0
    queries: Positions = slice(None)
    keys: Positions = slice(None)

    @property
    def kind(self) -> str:
        """The name of the mechanism in a config; ``other`` for mechanisms without such a name."""
        return NAMES.get(type(self.call.mechanism), "other")

    def terms(self) -> WeightTerms:
        """Return the terms of the weights of the map."""
        terms = weight_terms(self.call, self.row)
        return terms._replace(
            query=terms.query[:, self.queries],
            key=terms.key[:, self.keys],
            value=terms.value[:, self.keys],
            allowed=terms.allowed[self.queries][:, self.keys],
            bias=None if terms.bias is None else terms.bias[:, self.queries][:, :, self.keys],
        )


@torch.no_grad()
def weight_terms(call: AttentionCall, row: int = 0) -> WeightTerms:
    """Return the terms of one row of the batch."""
    heads, mechanism = call.query.shape[1], call.mechanism
    allowed = call.allowed(row).to(call.weights.dtype)
    query, key, value = (share_heads(x, heads)[row].detach() for x in (call.query, call.key, call.value))
    terms = mechanism.terms(query, key, call.bound) if isinstance(mechanism, Score) else None
    if terms is None:
        return WeightTerms("none", type(mechanism).__name__, 1.0, query, key, value, allowed)
    return WeightTerms(
        terms.kind, terms.formula, terms.scale, terms.query, terms.key, value, allowed, terms.vector, terms.bias
    )
