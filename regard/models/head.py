"""Output projection of a network: features to logits of a vocabulary, and their loss."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.models.cross_entropy import Loss, output_loss


class Head(nn.Module):
    """Logits W x (+ b) of every type, for features x (Vaswani et al. 2017, §3.4).

    ``weight`` W (types, width) may be the embedding matrix. ``bias`` b (types,) or None; a bias that is not a parameter
    is neither trained nor saved.
    """

    def __init__(self, weight: nn.Parameter, bias: Tensor | None = None) -> None:
        super().__init__()
        self.weight = weight
        self.bias: Tensor | None
        if bias is None or isinstance(bias, nn.Parameter):
            self.register_parameter("bias", bias)
        else:
            self.register_buffer("bias", bias, persistent=False)

    def forward(self, features: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape types"]:
        return linear(features, self.weight, self.bias)

    def log_probabilities(self, features: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape types"]:
        """Return log-probabilities of every type, in float32 or wider."""
        logits: Tensor = self(features)
        return torch.log_softmax(logits.float() if logits.dtype == torch.bfloat16 else logits, -1)

    def loss(self, features: Float[Tensor, "rows width"], target: Int[Tensor, "rows"], *, smoothing: float) -> Loss:
        """Return the cross-entropy of the targets, summed over rows, in nats, without holding all logits at once."""
        return output_loss(features, self.weight, self.bias, target, smoothing=smoothing)


def start_at_zero(output: nn.Linear) -> None:
    """Set the output layer to zero: with a wide part, training starts at the solution of the wide part."""
    nn.init.zeros_(output.weight)
    nn.init.zeros_(output.bias)
