"""Base of mechanisms whose energy is a function of one query and one key, computed for all pairs or for edges."""

from __future__ import annotations

from abc import abstractmethod

from jaxtyping import Float
from torch import Tensor

from regard.attention.contract import Attended
from regard.attention.kernel import attend_pairs
from regard.attention.mask import Bound
from regard.attention.score import SoftmaxScore
from regard.core.state import State


class PairScore(SoftmaxScore):
    """α = softmax(e), e = ``pair``(``project``(q), ``prepare``(k)).

    A subclass implements ``pair``, and optionally ``project``. Under a mask of ``Edges`` only the energies of edges are
    computed.
    """

    def project(self, query: Float[Tensor, "batch heads query width"]) -> Float[Tensor, "batch heads query projected"]:
        """Return projected queries for ``pair``, computed once per query; by default the queries themselves."""
        return query

    @abstractmethod
    def pair(
        self, query: Float[Tensor, "batch heads *#pairs width"], key: Float[Tensor, "batch heads *#pairs width"]
    ) -> Float[Tensor, "batch heads *pairs"]:
        """Return the energies of paired projected queries and prepared keys; dimensions of size 1 broadcast."""

    def energy(
        self, query: Float[Tensor, "batch heads query width"], key: Float[Tensor, "batch heads key prepared"]
    ) -> Float[Tensor, "batch heads query key"]:
        return self.pair(self.project(query)[:, :, :, None], key[:, :, None])

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
        context, weights = attend_pairs(
            self.project(query), key, value, bound, self.pair, dropping=self.dropping, need_weights=need_weights
        )
        return Attended(context, weights, state)
