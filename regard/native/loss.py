"""Cross-entropy of training by the kernels: softmax, loss and its slope, row by row in place of the logits."""

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
    """Losses, with p − ε/V − (1 − ε)·1[target] written over the logits; None where the kernels do not take these.

    Exponentials and sums are of 32 bits in either format. IndexError for a target beyond the types.
    """
    taken = logits.is_cpu and logits.dtype in FORMATS and logits.is_contiguous() and target.dtype is torch.int64
    if not taken or not len(logits) or not passes.available():
        return None
    rows, types = logits.shape
    least, greatest = (int(each) for each in torch.aminmax(target))
    if least < 0 or greatest >= types:
        raise IndexError(f"targets lie from {least} to {greatest}, and there are {types} types")
    found = RowLosses(torch.empty(rows), torch.empty(rows))
    room = -(-types // LANES) * LANES
    scratch, target = torch.empty(torch.get_num_threads(), room), target.contiguous()
    tensors = {"x": logits, "kept": found.target, "part": found.types, "target": target, "scratch": scratch}
    given = row_pass("loss", logits.dtype, rows, types, **tensors)
    given.scale, given.room = smoothing, room
    passes.run(given, logits.numel())
    return found
