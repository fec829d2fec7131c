"""Hard attention: each query reads exactly one key, with the gradient of a softmax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.contract import Abilities
from regard.attention.kernel import Energy, masked_softmax
from regard.attention.mask import Bound
from regard.attention.score import ReweightedScore, Score


class Hard(ReweightedScore):
    """α_i = one-hot(argmax_j e_ij), e_ij = ``score``(q_i, k_j): each query reads the allowed key of highest energy.

    A choice has derivative 0, so the gradient is that of α̃ = softmax(e / τ), straight through (Bengio et al.
    2013): ∂α/∂e := ∂α̃/∂e. Only the chosen value gets a gradient. τ is ``temperature``: a lower one brings α̃, and so
    the gradient, closer to the choice. The first of equal energies is chosen. Training and evaluation are equal, and
    nothing is random. No parameters except those of ``score``, no state. Cost: that of ``score`` with all its
    energies, and a product with zeros.

    Differs from Xu et al. 2015 (§4.1) in: the choice is the argmax, not a draw, and is learned with a biased gradient
    of low variance instead of REINFORCE.

    Args:
        score: the mechanism that computes the energies.
        temperature: τ of the gradient, above 0.
    """

    def __init__(self, score: Score, *, temperature: float = 1.0) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature must be greater than 0, got {temperature}")
        self.score, self.temperature = score, temperature

    def can(self) -> Abilities:
        return replace(self.score.can(), fused=False, differentiable=False)

    def normalizer(
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Callable[[Energy, Bool[Tensor, "batch 1 query key"]], Energy]:
        return self._choose

    def _choose(
        self, energy: Float[Tensor, "batch heads query key"], allowed: Bool[Tensor, "batch #heads query key"]
    ) -> Float[Tensor, "batch heads query key"]:
        soft = masked_softmax(energy / self.temperature, allowed)
        top, chosen = soft.detach().max(-1, keepdim=True)
        hard = torch.zeros_like(soft).scatter(-1, chosen, (top > 0).to(soft.dtype))
        return hard + (soft - soft.detach())  # in this order of additions the result is exactly one-hot
