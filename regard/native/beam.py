"""Hypotheses of a beam search whose steps are run without Python, as long as none has to be decided on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int32
from torch import Tensor

from regard.native.checks import require, shaped
from regard.native.library import Beam

MOST_BEST = 64  # types of a row, and hypotheses of a sentence


@dataclass
class BeamRows:
    """Log P of live hypotheses, and room for what each of them goes on from in steps that are not the last."""

    total: Float64[Tensor, "sentences width"]  # the greatest first; goes on
    least: Float64[Tensor, "sentences"]  # what the greatest has to exceed, or else the sentence may be done
    parent: Int32[Tensor, "steps rows"]
    chosen: Int32[Tensor, "steps rows"]
    gain: Float[Tensor, "steps rows"]

    @classmethod
    def of(cls, total: Tensor, least: Tensor, steps: int) -> BeamRows:
        """Room for so many steps of these hypotheses."""
        parent, chosen = torch.empty(2, steps - 1, total.numel(), dtype=torch.int32)
        return cls(total.contiguous().clone(), least, parent, chosen, torch.empty(steps - 1, total.numel()))

    def filled(self, rows: int, steps: int) -> Beam:
        """The addresses of all of it; refused where it is not of so many rows and steps."""
        require(self.total.dim() == 2, "totals by sentence and hypothesis")
        sentences, width = self.total.shape
        require(
            0 < width <= MOST_BEST and sentences * width == rows, f"{sentences} × {width} hypotheses in {rows} rows"
        )
        shaped(self.total, self.total.shape, torch.float64, "total")
        shaped(self.least, (sentences,), torch.float64, "least")
        for name, type in (("parent", torch.int32), ("chosen", torch.int32), ("gain", torch.float32)):
            shaped(getattr(self, name), (steps - 1, rows), type, name)
        every = {name: getattr(self, name).data_ptr() for name in ("total", "least", "parent", "chosen", "gain")}
        return Beam(sentences=sentences, width=width, **every)
