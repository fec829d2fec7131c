"""Mechanisms that take one query after another, because the weights of a query depend on those before it."""

from __future__ import annotations

from abc import abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.additive_score import AdditiveScore
from regard.attention.contract import Abilities, Attended, Mechanism
from regard.attention.kernel import blank_unseen, read, share_heads
from regard.attention.mask import Bound
from regard.core.state import State


class Sequential(Mechanism):
    """Base of mechanisms that score by ``content`` and carry a state from query to query.

    A subclass writes ``start`` and ``step``. A padded query leaves the state alone. Not causal: the state has a weight
    for every key, so all keys must exist from the start.
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
        """Weights of one query and the state after it; query and keys are projected, ``bound`` is of this query."""

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
        key, value = (share_heads(blank_unseen(x, bound), query.shape[1]) for x in (key, value))
        projected, found = self.content.project_query(query), []
        for i in range(query.shape[2]):
            weights, after = self.step(projected[:, :, i : i + 1], key, bound.column(i), state)
            found.append(weights)
            state = _where(bound.query.valid[:, i], after, state)
        together = torch.cat(found, 2) if found else query.new_zeros(*query.shape[:3], key.shape[2])
        return Attended(read(together, value, self.dropping), together if need_weights else None, state)


def _where(rows: Bool[Tensor, "batch"], new: State, old: State) -> State:
    """``new`` in these rows, ``old`` in the others, leaf by leaf."""
    if isinstance(new, Tensor):
        return torch.where(rows.view(-1, *[1] * (new.dim() - 1)), new, old)
    children = [_where(rows, *pair) for pair in zip(new, old, strict=True)]
    return getattr(type(new), "_make", tuple)(children)
