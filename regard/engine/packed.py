"""Linear layers whose matrices are laid out once for the processor's matrix units.

The one file that names torch's own packed operators. Where they are absent (no oneDNN, not a CPU) the plain layer
computes the same.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import linear

__all__ = ["PackedLinear"]

TYPICAL_ROWS = 64  # what the layout is chosen for; any number works


class PackedLinear:
    """y = act(x Wᵀ + b), and y + residual in the same pass.

    For inference alone: no module, no parameters, no gradient. ``weight`` may be several matrices over one
    another, which then cost one product. Number format and place are those of the weight.
    """

    def __init__(
        self,
        weight: Float[Tensor, "leave enter"],
        bias: Float[Tensor, "leave"] | None = None,
        *,
        activation: Literal["none", "relu"] = "none",
    ) -> None:
        weight, self.bias, self.activation = weight.detach(), None if bias is None else bias.detach(), activation
        known = weight.dtype in (torch.float32, torch.bfloat16)
        self.packed = known and weight.device.type == "cpu" and torch.backends.mkldnn.is_available()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, TYPICAL_ROWS) if self.packed else weight

    def __call__(self, x: Float[Tensor, "rows enter"]) -> Float[Tensor, "rows leave"]:
        if self.packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, self.activation, [], "")
            return y
        y = linear(x, self.weight, self.bias)
        return torch.relu(y) if self.activation == "relu" else y

    def onto(
        self, residual: Float[Tensor, "rows leave"], x: Float[Tensor, "rows enter"]
    ) -> Float[Tensor, "rows leave"]:
        """residual + (x Wᵀ + b); the activation must be none."""
        if self.packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")
            return y
        return residual + linear(x, self.weight, self.bias)
