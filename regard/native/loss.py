"""Cross-entropy of training with the kernels: softmax, loss and gradient, written row by row over the logits."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.native import passes
from regard.native.passes import FORMATS, LANES, row_pass


class RowLosses(NamedTuple):
    """Losses of each row: −log p of its target, and the sum of −log p over all types."""

    target: Float[Tensor, "rows"]
    types: Float[Tensor, "rows"]


def slope_in_place(
    logits: Float[Tensor, "rows types"], target: Int[Tensor, "rows"], smoothing: float
) -> RowLosses | None:
    """Return losses and overwrite the logits with p − ε/V − (1 − ε)·1[target]; None if unsupported by the kernels.

    Exponentials and sums have 32 bits in both formats.

    Raises:
        IndexError: a target is not a valid type.
    """
    supported = logits.is_cpu and logits.dtype in FORMATS and logits.is_contiguous() and target.dtype is torch.int64
    if not supported or not len(logits) or not passes.available():
        return None
    rows, types = logits.shape
    least, greatest = (int(bound) for bound in torch.aminmax(target))
    if least < 0 or greatest >= types:
        raise IndexError(f"targets must be between 0 and {types - 1}, got {least} to {greatest}")
    losses = RowLosses(torch.empty(rows), torch.empty(rows))
    padded = -(-types // LANES) * LANES
    scratch, target = torch.empty(torch.get_num_threads(), padded), target.contiguous()
    tensors = {"x": logits, "kept": losses.target, "part": losses.types, "target": target, "scratch": scratch}
    call = row_pass("loss", logits.dtype, rows, types, **tensors)
    call.scale, call.room = smoothing, padded
    passes.run(call, logits.numel())
    return losses
