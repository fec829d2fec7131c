"""Muon: orthogonalized momentum, and the hidden matrices of a network that it updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.models.head import Head
from regard.models.input import Input
from regard.training.row_parts import rows_like, shard_like, whole

STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
TOGETHER = 1 << 22  # weights that are updated at once
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
        for groups in self._runs():
            momenta = [self._momentum(group).chunk(group["stacked"]) for group in groups]
            changes = iter(orthogonalize_each([matrix for matrices in momenta for matrix in matrices]))
            for group, matrices in zip(groups, momenta, strict=True):
                (weight,), rate = group["params"], group["lr"]
                change = torch.cat([next(changes) for _ in matrices])
                weight.mul_(1 - rate * group["weight_decay"])
                size = AS_ADAM * math.sqrt(max(matrices[0].shape))
                weight.add_(rows_like(change, group["parameter"]), alpha=-size * rate)

    def _runs(self) -> Iterator[list[dict[str, Any]]]:
        """Yield successive groups with about ``TOGETHER`` weights, since all of their updates are in memory at once."""
        groups, size = list[dict[str, Any]](), 0
        for group in self.param_groups:
            if group["params"][0].grad is None:
                continue
            groups.append(group)
            size += group["parameter"].numel()
            if size >= TOGETHER:
                yield groups
                groups, size = [], 0
        if groups:
            yield groups

    def _momentum(self, group: dict[str, Any]) -> Tensor:
        """Update the momentum of a weight; return Nesterov's momentum of the whole parameter."""
        (weight,) = group["params"]
        state: dict[str, Any] = self.state[weight]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        buffer = state["momentum_buffer"]
        buffer.lerp_(weight.grad, 1 - group["momentum"])
        rows = weight.grad.lerp(buffer, group["momentum"]).to(group["format"])
        return whole(shard_like(rows, group["parameter"]))


def orthogonalize_each(matrices: Sequence[Tensor]) -> list[Tensor]:
    """Return ``orthogonalize`` of each matrix; those of equal shape and format are computed as one batch.

    Small matrices are computed twice as fast as one by one.
    """
    alike: dict[tuple[Any, ...], list[int]] = {}
    for index, matrix in enumerate(matrices):
        alike.setdefault((matrix.shape, matrix.dtype, matrix.device), []).append(index)
    results = list(matrices)
    for indices in alike.values():
        for index, result in zip(indices, orthogonalize(torch.stack([matrices[i] for i in indices])), strict=True):
            results[index] = result
    return results


def orthogonalize(matrices: Float[Tensor, "batch rows columns"]) -> Float[Tensor, "batch rows columns"]:
    """Return approximately U Vᵀ for each matrix U Σ Vᵀ, in its number format: all singular values are near 1.

    X ← a X + (b A + c A²) X with A = X Xᵀ, five times from X = M / ‖M‖_F for a matrix M. Each step maps a singular
    value σ to a σ + b σ³ + c σ⁵. The coefficients (Jordan et al. 2024) are steep at 0 and do not converge: an initial σ
    above 0.002 ends between 0.68 and 1.21; a smaller one ends lower.
    """
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices  # use the smaller one of the products X Xᵀ and Xᵀ X
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=TINY)
    for _ in range(STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


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
