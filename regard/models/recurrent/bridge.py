"""First state of a recurrent decoder from the encoder's summary."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.models.recurrent.stack import Layers, Stack


class Bridge(nn.Module, ABC):
    """Base of maps from ``final`` (sentences, summary) to the first state of a stack of cells."""

    @abstractmethod
    def forward(self, final: Float[Tensor, "sentences summary"]) -> Layers: ...


class LearnedState(Bridge):
    """h_0 = tanh(W final + b) in each layer; LSTM cells start empty.

    (Bahdanau et al. 2015, A.2.2: s_0 = tanh(W_s ←h_1).) Differs from the paper in: W reads all last states
    of the encoder, not ←h_1 alone, and has a bias. Fits any encoder.
    """

    def __init__(self, summary: int, cells: Stack) -> None:
        super().__init__()
        self.parts, self.width = [cell.parts for cell in cells.layers], cells.width
        self.linear = nn.Linear(summary, len(self.parts) * self.width)

    def forward(self, final: Float[Tensor, "sentences summary"]) -> Layers:
        hidden = torch.tanh(self.linear(final)).chunk(len(self.parts), 1)
        return tuple(
            (first, *(torch.zeros_like(first) for _ in range(parts - 1)))
            for first, parts in zip(hidden, self.parts, strict=True)
        )


class CopiedState(Bridge):
    """First state copied from the encoder's last, hidden states and cells (Luong et al. 2015, Sutskever 2014).

    No parameters. The encoder must have as many layers, of such cells, as wide, in one direction: ValueError.
    """

    def __init__(self, summary: int, cells: Stack) -> None:
        super().__init__()
        self.parts, self.width = [cell.parts for cell in cells.layers], cells.width
        wanted = sum(self.parts) * self.width
        if summary != wanted:
            raise ValueError(
                f"the cells carry {wanted} numbers and the encoder's summary has {summary}: it cannot be copied"
            )

    def forward(self, final: Float[Tensor, "sentences summary"]) -> Layers:
        carried = iter(final.split(self.width, 1))
        return tuple(tuple(next(carried) for _ in range(parts)) for parts in self.parts)
