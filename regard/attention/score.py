"""Mechanisms that are a score between a query and a key, and no more."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.contract import Abilities, Attended, Mechanism
from regard.attention.kernel import Energy, blank_unseen, masked_softmax, read, share_heads, weigh
from regard.attention.mask import Bound
from regard.core.state import State

__all__ = ["ReweightedScore", "Score", "SoftmaxScore"]


class Score(Mechanism):
    """A mechanism that begins with an energy e(q, k) for every pair; others may build on that energy."""

    @abstractmethod
    def energy(
        self, query: Float[Tensor, "batch heads query width"], key: Float[Tensor, "batch heads key key_width"]
    ) -> Float[Tensor, "batch heads query key"]:
        """The energy of every pair; no mask yet."""


class SoftmaxScore(Score):
    """α = softmax(e) over the allowed keys, context = Σ α v. A subclass writes ``energy``.

    ``normalise`` turns energies into weights; a subclass may set another. ``may_see_nothing``: an allowed key may have
    the energy −∞. ``same_width``: a query must be as wide as a key.
    """

    may_see_nothing = same_width = False

    normalise: Callable[[Energy, Bool[Tensor, "batch 1 query key"]], Energy] = staticmethod(masked_softmax)

    def can(self) -> Abilities:
        return Abilities(
            causal=True,
            cross=True,
            stream="exact",
            weights=True,
            order_free=True,
            normalised=True,
            fused=False,
            may_see_nothing=self.may_see_nothing,
            same_width=self.same_width,
        )

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
        weights = weigh(self.energy(query, key), bound, self.normalise)
        return Attended(read(weights, value, self.dropping), weights if need_weights else None, state)


class ReweightedScore(Mechanism):
    """Another score's energies, made into weights in a way of its own; what remains to be written is ``normaliser``."""

    score: Score

    @abstractmethod
    def normaliser(
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Callable[[Energy, Bool[Tensor, "batch 1 query key"]], Energy]:
        """How the energies of these queries become weights over the keys that are allowed."""

    def prepare(self, key: Float[Tensor, "batch key_heads key key_width"]) -> Float[Tensor, "batch heads key prepared"]:
        return self.score.prepare(key)

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
        weights = weigh(self.score.energy(query, key), bound, self.normaliser(query, bound))
        return Attended(read(weights, value, self.dropping), weights if need_weights else None, state)
