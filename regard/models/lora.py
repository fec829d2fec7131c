"""A linear layer with a frozen matrix and a trained low-rank update."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear


class LowRankLinear(nn.Module):
    """y = x Wᵀ + b + s (x Aᵀ) Bᵀ with frozen W and b (LoRA, Hu et al. 2021, Eq. 3).

    A (``lora_a``) has ``rank`` rows, B (``lora_b``) has ``rank`` columns, and s is α/r. B starts at zero, so the layer
    starts as ``base``. Code that reads ``weight`` gets W + s B A. The gradient of W is never computed.

    Differs from the paper: A starts uniform in ±1/√width, as in the authors' code, instead of Gaussian.

    Args:
        base: the layer to adapt; its parameters are frozen.
        rank: rows of A and columns of B.
        scale: s, the factor of the update.
    """

    def __init__(self, base: nn.Linear, *, rank: int, scale: float) -> None:
        super().__init__()
        self.base, self.rank, self.scale = base.requires_grad_(False), rank, scale
        self.lora_a = nn.Parameter(base.weight.new_empty(rank, base.in_features))
        self.lora_b = nn.Parameter(base.weight.new_zeros(base.out_features, rank))
        if not self.lora_a.is_meta:
            nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    @property
    def in_features(self) -> int:
        return self.base.in_features

    @property
    def out_features(self) -> int:
        return self.base.out_features

    @property
    def weight(self) -> Tensor:
        """W + s B A."""
        return merged(self.base.weight, self.lora_a, self.lora_b, self.scale)

    @property
    def bias(self) -> Tensor | None:
        bias: Tensor | None = self.base.bias
        return bias

    def forward(self, x: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows outputs"]:
        y: Tensor = self.base(x)
        return y + linear(linear(x, self.lora_a) * self.scale, self.lora_b)


def merged(weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Return W + s B A; the bits of W if B is zero."""
    return torch.add(weight, b @ a, alpha=scale)
