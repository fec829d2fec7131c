"""Stack of recurrent cells, run step by step or over whole sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.models.dropout import Dropout
from regard.models.recurrent.cells import Carried, Cell

Layers = tuple[Carried, ...]
StackStep = Callable[[Tensor, Tensor | None, Layers], tuple[Tensor, Layers]]


class Stack(nn.Module):
    """Layers of cells from left to right; each reads the hidden states of the previous layer, after dropout.

    Dropout is not applied from step to step (Zaremba et al. 2014).
    """

    def __init__(self, cells: list[Cell], *, dropout: float = 0.0) -> None:
        super().__init__()
        self.cells, self.dropout = nn.ModuleList(cells), Dropout(dropout)
        self.width = cells[-1].width

    @property
    def layers(self) -> Iterable[Cell]:
        return cast(Iterable[Cell], self.cells)

    def run(
        self, x: Float[Tensor, "rows length in_width"], length: Int[Tensor, "rows"], state: Layers
    ) -> tuple[Float[Tensor, "rows length width"], Layers]:
        """Return the top hidden states, and the state after the first ``length`` positions of each row."""
        after = []
        for number, (cell, before) in enumerate(zip(self.layers, state, strict=True)):
            x, carried = cell.run(self.dropout(x) if number else x, length, before)
            after.append(carried)
        return x, tuple(after)

    def step_function(self) -> StackStep:
        """Return a function (input (rows, in_width), valid (rows,) or None, state) → (top hidden state, next state).

        Rows where ``valid`` is False keep their state; None: all rows are valid. The function is valid within one pass.
        """
        cells = [(cell.project_input, cell.step_function()) for cell in self.layers]

        def step(
            x: Float[Tensor, "rows in_width"], valid: Bool[Tensor, "rows"] | None, state: Layers
        ) -> tuple[Tensor, Layers]:
            after = []
            for number, ((project, cell_step), before) in enumerate(zip(cells, state, strict=True)):
                carried = cell_step(project(self.dropout(x) if number else x), before)
                x = carried[0]
                after.append(carried if valid is None else _where(valid, carried, before))
            return x, tuple(after)

        return step


def _where(valid: Bool[Tensor, "rows"], new: Carried, old: Carried) -> Carried:
    return tuple(torch.where(valid[:, None], one, other) for one, other in zip(new, old, strict=True))
