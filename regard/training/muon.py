"""Muon: momentum made orthogonal, for the hidden matrices of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.training.row_parts import cut_like, rows_like, whole

STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
TINY = 1e-7  # below this norm a gradient is nothing
AS_ADAM = 0.2  # root mean square of an entry of AdamW's updates, by Liu et al. 2025


class HiddenMatrix(NamedTuple):
    """A float32 weight, of which so many matrices are ``stacked`` row upon row; ``format``: of the iteration.

    ``parameter``: the one whose rows on this rank ``weight`` is, where ranks share them.
    """

    weight: Tensor
    stacked: int
    format: torch.dtype
    parameter: Tensor


class Muon(torch.optim.Optimizer):
    """Steps along the momentum with all of its singular values near 1 (Jordan et al. 2024).

    B ← μ B + (1 − μ) G, M = μ B + (1 − μ) G (Nesterov), W ← (1 − η λ) W − 0.2 η √max(rows, columns) O, where O is
    ``orthogonalize(M)``. The scale gives an update the root mean square of AdamW's, so that both take one rate η and
    one decay λ (Liu et al. 2025, Eq. 4; torch's ``match_rms_adamw``); Jordan's own is √max(1, rows / columns).

    Differs from ``torch.optim.Muon`` in: the iteration runs in the number format that the model computes in, where
    torch's is always bfloat16, which many processors emulate; and stacked matrices are orthogonalized one by one.
    Cost of a matrix n × m, n ≤ m: 20 n² m + 10 n³ operations an update, whatever the batch; on every rank, where ranks
    share its rows, since each needs the whole of it.
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
            kept: dict[str, Any] = self.state[weight]
            if not kept:
                kept["momentum_buffer"] = torch.zeros_like(weight)
            buffer, rate = kept["momentum_buffer"], group["lr"]
            buffer.lerp_(weight.grad, 1 - group["momentum"])
            rows = weight.grad.lerp(buffer, group["momentum"]).to(group["format"])
            wanted = whole(cut_like(rows, group["parameter"]))
            change = torch.cat([orthogonalize(matrix) for matrix in wanted.chunk(group["stacked"])])
            largest = max(len(wanted) // group["stacked"], wanted.shape[1])
            weight.mul_(1 - rate * group["weight_decay"])
            weight.add_(rows_like(change, group["parameter"]), alpha=-AS_ADAM * math.sqrt(largest) * rate)


def orthogonalize(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """Return about U Vᵀ for the matrix U Σ Vᵀ, in its number format: all singular values near 1.

    X ← a X + (b A + c A²) X with A = X Xᵀ, five times from X = matrix / ‖matrix‖_F: a singular value σ becomes
    a σ + b σ³ + c σ⁵ each time. The coefficients (Jordan et al. 2024) are steep at 0 and do not converge: a σ that
    begins above 0.002 ends between 0.68 and 1.21, a smaller one is still rising.
    """
    a, b, c = COEFFICIENTS
    tall = len(matrix) > matrix.shape[1]
    x = matrix.T if tall else matrix  # the smaller of the two products X Xᵀ, Xᵀ X
    x = x / x.norm().clamp(min=TINY)
    for _ in range(STEPS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
