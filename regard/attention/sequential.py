"""Mechanisms that process queries one by one, because the weights of a query depend on earlier queries."""

from __future__ import annotations

from abc import abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.additive_score import AdditiveScore
from regard.attention.contract import Abilities, Attended, Mechanism
from regard.attention.kernel import read, share_heads, zero_masked
from regard.attention.mask import Bound
from regard.core.state import State


class Sequential(Mechanism):
    """Base of mechanisms that score with ``content`` and carry a state from query to query.

    A subclass implements ``start`` and ``step``. A padded query does not change the state. Not causal: the state has a
    weight for every key, so all keys must exist from the start.
    """

    content: AdditiveScore

    @abstractmethod
    def step(
        self,
        query: Float[Tensor, "batch heads 1 width"],
        key: Float[Tensor, "batch heads key width"],
        bound: Bound,
        state: State,
    ) -> tuple[Float[Tensor, "batch heads 1 key"], State]:
        """Return the weights of one query and the next state.

        Query and keys are projected; ``bound`` is that of this query.
        """

    def can(self) -> Abilities:
        return Abilities(
            causal=False,
            cross=True,
            stream="exact",
            weights=True,
            order_free=False,
            normalized=True,
            fused=False,
        )

    def prepare(self, key: Float[Tensor, "batch key_heads key key_width"]) -> Float[Tensor, "batch heads key prepared"]:
        return self.content.project_key(key)

    def forward(
        self,
        query: Float[Tensor, "batch heads query width"],
        key: Float[Tensor, "batch prepared_heads key prepared"],
        value: Float[Tensor, "batch key_heads key value"],
        bound: Bound,
        state: State = (),
        *,
        need_weights: bool = False,
    ) -> Attended:
        key, value = (share_heads(zero_masked(x, bound), query.shape[1]) for x in (key, value))
        projected, weights_per_query = self.content.project_query(query), []
        for i in range(query.shape[2]):
            weights, next_state = self.step(projected[:, :, i : i + 1], key, bound.column(i), state)
            weights_per_query.append(weights)
            state = _where(bound.query.valid[:, i], next_state, state)
        all_weights = (
            torch.cat(weights_per_query, 2) if weights_per_query else query.new_zeros(*query.shape[:3], key.shape[2])
        )
        return Attended(read(all_weights, value, self.dropping), all_weights if need_weights else None, state)


def _where(rows: Bool[Tensor, "batch"], new: State, old: State) -> State:
    """Select ``new`` in these rows and ``old`` in all other rows, leaf by leaf."""
    if isinstance(new, Tensor):
        return torch.where(rows.view(-1, *[1] * (new.dim() - 1)), new, old)
    children = [_where(rows, *pair) for pair in zip(new, old, strict=True)]
    return getattr(type(new), "_make", tuple)(children)
