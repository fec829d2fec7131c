"""Muon: orthogonalized momentum, and the hidden matrices of a network that it updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.models.head import Head
from regard.models.input import Input
from regard.training.row_parts import rows_like, shard_like, whole

STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
TINY = 1e-7  # lower bound of the norm of a gradient
AS_ADAM = 0.2  # root mean square of AdamW's updates (Liu et al. 2025)
ENDS = (Input, Head, nn.Embedding)  # modules with lookup tables and output projections, not hidden matrices
HEIGHTS = {nn.Linear: "out_features", nn.RNNBase: "hidden_size", nn.RNNCellBase: "hidden_size",
           nn.MultiheadAttention: "embed_dim"}  # fmt: skip


class HiddenMatrix(NamedTuple):
    """A float32 weight of ``stacked`` matrices, concatenated by rows; ``format`` is the number format of the iteration.

    If ranks shard the parameter, ``weight`` has this rank's rows of ``parameter``.
    """

    weight: Tensor
    stacked: int
    format: torch.dtype
    parameter: Tensor


class Muon(torch.optim.Optimizer):
    """Optimizer with steps along the orthogonalized momentum, all singular values near 1 (Jordan et al. 2024).

    B ← μ B + (1 − μ) G; M = μ B + (1 − μ) G (Nesterov); W ← (1 − η λ) W − 0.2 η √max(rows, columns) O, where O is
    ``orthogonalize(M)``. The scale gives updates the root mean square of AdamW's, so both can use the same rate η and
    decay λ (Liu et al. 2025, Eq. 4; torch's ``match_rms_adamw``); Jordan's own is √max(1, rows / columns).

    Differs from ``torch.optim.Muon``: the iteration uses the number format of the model, instead of always bfloat16,
    which many processors emulate; and stacked matrices are orthogonalized one by one. Cost of a matrix n × m, n ≤ m: 20
    n² m + 10 n³ operations per update for any batch. If ranks shard its rows, each rank needs the whole matrix and
    repeats this work.
    """

    def __init__(self, matrices: Iterable[HiddenMatrix], *, momentum: float, weight_decay: float) -> None:
        groups = [
            {"params": [weight], "stacked": stacked, "format": format, "parameter": parameter}
            for weight, stacked, format, parameter in matrices
        ]
        super().__init__(groups, {"lr": 0.0, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            (weight,) = group["params"]
            if weight.grad is None:
                continue
            state: dict[str, Any] = self.state[weight]
            if not state:
                state["momentum_buffer"] = torch.zeros_like(weight)
            buffer, rate = state["momentum_buffer"], group["lr"]
            buffer.lerp_(weight.grad, 1 - group["momentum"])
            rows = weight.grad.lerp(buffer, group["momentum"]).to(group["format"])
            momentum = whole(shard_like(rows, group["parameter"]))
            change = torch.cat([orthogonalize(matrix) for matrix in momentum.chunk(group["stacked"])])
            largest = max(len(momentum) // group["stacked"], momentum.shape[1])
            weight.mul_(1 - rate * group["weight_decay"])
            weight.add_(rows_like(change, group["parameter"]), alpha=-AS_ADAM * math.sqrt(largest) * rate)


def orthogonalize(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """Return approximately U Vᵀ for the matrix U Σ Vᵀ, in its number format: all singular values are near 1.

    X ← a X + (b A + c A²) X with A = X Xᵀ, five times from X = matrix / ‖matrix‖_F. Each step maps a singular value σ
    to a σ + b σ³ + c σ⁵. The coefficients (Jordan et al. 2024) are steep at 0 and do not converge: an initial σ above
    0.002 ends between 0.68 and 1.21; a smaller one ends lower.
    """
    a, b, c = COEFFICIENTS
    tall = len(matrix) > matrix.shape[1]
    x = matrix.T if tall else matrix  # use the smaller one of the products X Xᵀ and Xᵀ X
    x = x / x.norm().clamp(min=TINY)
    for _ in range(STEPS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def hidden_matrices(net: nn.Module) -> dict[str, int]:
    """Return the names of hidden matrices, each with the number of matrices stacked in it.

    They are the weights of torch's linear layers, recurrent layers and attention that no input, head or lookup table
    uses: a matrix shared with an embedding is excluded. The gates of a recurrent layer, and torch's fused query, key
    and value, are separate stacked matrices. The heads of a projection are one matrix. A matrix with a single row or
    column counts as a vector.
    """
    at_ends = {id(weight) for part in net.modules() if isinstance(part, ENDS) for weight in part.parameters()}
    stacked: dict[int, int] = {}
    for part in net.modules():
        for kind, height in HEIGHTS.items():
            if isinstance(part, kind):
                stacked |= {
                    id(weight): max(len(weight) // getattr(part, height), 1)
                    for weight in part.parameters(recurse=False)
                    if weight.ndim == 2 and id(weight) not in at_ends
                }
    return {
        name: stacked[id(weight)]
        for name, weight in net.named_parameters()
        if id(weight) in stacked and min(len(weight) // stacked[id(weight)], weight.shape[1]) > 1
    }
