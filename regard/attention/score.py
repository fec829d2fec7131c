"""Bases of mechanisms whose weights come from an energy of each query and key alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.contract import Abilities, Attended, Mechanism
from regard.attention.kernel import Energy, masked_softmax, read, share_heads, weigh, zero_masked
from regard.attention.mask import Bound
from regard.core.state import State


class ScoreTerms(NamedTuple):
    """An energy written as a sum: e(t, s) = scale · Σ_i term_i + bias.

    Attributes:
        kind: ``product``: term_i = query_i · key_i; ``additive``: term_i = vector_i · tanh(query_i + key_i).
        formula: the formula as a text.
        scale: the factor of the sum.
        query: (heads, positions, width).
        key: (heads, positions, width).
        vector: (heads, width).
        bias: (heads, query, key).
    """

    kind: Literal["product", "additive"]
    formula: str
    scale: float
    query: Tensor
    key: Tensor
    vector: Tensor | None = None
    bias: Tensor | None = None


class Score(Mechanism):
    """Base of mechanisms with an energy e(q, k) for every pair, on which other mechanisms can be built."""

    @abstractmethod
    def energy(
        self, query: Float[Tensor, "batch heads query width"], key: Float[Tensor, "batch heads key key_width"]
    ) -> Float[Tensor, "batch heads query key"]:
        """Return the energy of every pair, before any mask."""

    def terms(
        self, query: Float[Tensor, "heads query width"], key: Float[Tensor, "heads key prepared"], bound: Bound
    ) -> ScoreTerms | None:
        """Return the energies of one sentence as sums, for display; None if they are not such a sum.

        ``key`` is prepared. ``bound`` may have more queries and keys than ``query`` and ``key``.
        """
        return None


class SoftmaxScore(Score):
    """α = softmax(e) over the allowed keys, context = Σ α v. A subclass implements ``energy``.

    ``normalize`` turns energies into weights; a subclass may set another. ``may_see_nothing``: an allowed key may have
    the energy −∞. ``same_width``: a query must be as wide as a key.
    """

    may_see_nothing = same_width = False

    normalize: Callable[[Energy, Bool[Tensor, "batch 1 query key"]], Energy] = staticmethod(masked_softmax)

    def can(self) -> Abilities:
        return Abilities(
            causal=True,
            cross=True,
            stream="exact",
            weights=True,
            order_free=True,
            normalized=True,
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
        key, value = (share_heads(zero_masked(x, bound), query.shape[1]) for x in (key, value))
        weights = weigh(self.energy(query, key), bound, self.normalize)
        return Attended(read(weights, value, self.dropping), weights if need_weights else None, state)


class ReweightedScore(Mechanism):
    """Base of mechanisms that compute weights from the energies of another ``score``.

    A subclass implements ``normalizer``.
    """

    score: Score

    @abstractmethod
    def normalizer(
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Callable[[Energy, Bool[Tensor, "batch 1 query key"]], Energy]:
        """Return the function from the energies of these queries and the allowed pairs to weights."""

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
        key, value = (share_heads(zero_masked(x, bound), query.shape[1]) for x in (key, value))
        weights = weigh(self.score.energy(query, key), bound, self.normalizer(query, bound))
        return Attended(read(weights, value, self.dropping), weights if need_weights else None, state)
