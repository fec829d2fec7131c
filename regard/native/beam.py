"""Hypotheses of a beam search whose steps run without Python until one of them requires a decision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int32
from torch import Tensor

from regard.native.checks import require, require_tensor
from regard.native.library import Beam

MAX_BEST = 64  # types per row, and hypotheses per sentence


@dataclass
class BeamRows:
    """Log P of live hypotheses, and buffers for the predecessors and tokens of all steps but the last."""

    total: Float64[Tensor, "sentences width"]  # in descending order; updated in place
    least: Float64[Tensor, "sentences"]  # bound that the greatest must exceed; otherwise the sentence may be finished
    parent: Int32[Tensor, "steps rows"]
    chosen: Int32[Tensor, "steps rows"]
    gain: Float[Tensor, "steps rows"]

    @classmethod
    def of(cls, total: Tensor, least: Tensor, steps: int) -> BeamRows:
        """Return buffers for ``steps`` steps of these hypotheses."""
        parent, chosen = torch.empty(2, steps - 1, total.numel(), dtype=torch.int32)
        return cls(total.contiguous().clone(), least, parent, chosen, torch.empty(steps - 1, total.numel()))

    def filled(self, rows: int, steps: int) -> Beam:
        """Return the addresses of all buffers; raise ValueError if they do not fit these rows and steps."""
        require(self.total.dim() == 2, f"total must have 2 dimensions (sentences, width), got {self.total.dim()}")
        sentences, width = self.total.shape
        require(
            0 < width <= MAX_BEST and sentences * width == rows,
            f"{sentences} × {width} hypotheses do not fit {rows} rows, with at most {MAX_BEST} per sentence",
        )
        require_tensor(self.total, self.total.shape, torch.float64, "total")
        require_tensor(self.least, (sentences,), torch.float64, "least")
        for name, type in (("parent", torch.int32), ("chosen", torch.int32), ("gain", torch.float32)):
            require_tensor(getattr(self, name), (steps - 1, rows), type, name)
        addresses = {name: getattr(self, name).data_ptr() for name in ("total", "least", "parent", "chosen", "gain")}
        return Beam(sentences=sentences, width=width, **addresses)
