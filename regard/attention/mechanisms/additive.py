"""Additive attention (Bahdanau; Luong's concat): the energy is a small network of query and key."""

from __future__ import annotations

from collections.abc import Collection

from jaxtyping import Float
from torch import Tensor

from regard.attention.additive_score import AdditiveScore
from regard.attention.kernel import Normalize, masked_softmax, normalizer
from regard.attention.mask import Bound
from regard.attention.score import ScoreTerms, SoftmaxScore


class Additive(SoftmaxScore):
    """e_ij = β vᵀ tanh(W q_i + U k_j + b), α = softmax(e) (Bahdanau et al. 2015, App. A.1.2; β = 1, no b).

    Equal to Luong's concat, v_aᵀ tanh(W_a [q; k]) with W_a = [W U] (Luong et al. 2015, §3.1, arXiv version), without
    building the concatenation. In ``content``: W ``query_weight`` (heads, width, d_q), U ``key_weight`` (heads,
    width, d_k), b ``bias`` and v ``vector`` (heads, width).

    No state. Cost per head: query·d_q·n' + key·d_k·n' once, then query·key·n' additions, tanhs and products. Memory:
    batch·heads·query·key·n' numbers. Differs from the papers in: every head has its own v, W and U; no constant is
    added to the energy (ESPnet), since it does not change a softmax (it would change a sigmoid); initialization is
    uniform in ±1/√fan-in (Bahdanau: v = 0, W and U nearly so).

    Args:
        heads: number of heads, each with its own parameters.
        query_width: d_q, features of a query per head.
        key_width: d_k, features of a key per head.
        width: n', the hidden units; None: d_q.
        learned: which of W ("query"), U ("key") and b ("bias") exist. Without W or U that side is added unprojected and
            must be n' wide, as when the heads already project. learned = () is ESPnet's vᵀ tanh(q + k).
        sharpening: β, a factor of the energy (ESPnet: 2).
        normalize: "softmax", or "sigmoid" for σ(e) / Σ σ(e) (Chorowski et al. 2015, §2.3, "smoothing").
    """

    def __init__(
        self,
        *,
        heads: int,
        query_width: int,
        key_width: int,
        width: int | None = None,
        learned: Collection[str] = ("query", "key"),
        sharpening: float = 1.0,
        normalize: Normalize = "softmax",
    ) -> None:
        super().__init__()
        self.content = AdditiveScore(
            heads=heads,
            query_width=query_width,
            key_width=key_width,
            width=width,
            learned=learned,
            sharpening=sharpening,
        )
        self.normalize = normalizer(normalize)

    def prepare(self, key: Float[Tensor, "batch key_heads key key_width"]) -> Float[Tensor, "batch heads key prepared"]:
        return self.content.project_key(key)

    def energy(
        self, query: Float[Tensor, "batch heads query width"], key: Float[Tensor, "batch heads key key_width"]
    ) -> Float[Tensor, "batch heads query key"]:
        return self.content.energies(query, key)

    def terms(
        self, query: Float[Tensor, "heads query width"], key: Float[Tensor, "heads key prepared"], bound: Bound
    ) -> ScoreTerms | None:
        if self.normalize is not masked_softmax:
            return None
        projected, sharpening = self.content.project_query(query[None])[0], self.content.sharpening
        return ScoreTerms("additive", "vᵀ tanh(q + k)", sharpening, projected, key, vector=self.content.vector)
