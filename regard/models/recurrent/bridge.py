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
    """h_0 = tanh(W final + b) in each layer; LSTM cells start at 0.

    (Bahdanau et al. 2015, A.2.2: s_0 = tanh(W_s ←h_1).) Differs from the paper in: W reads all last states
    of the encoder, not ←h_1 alone, and has a bias. Works with any encoder.
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

    No parameters. Raises ValueError unless the encoder has one direction and layers and cells of equal sizes.
    """

    def __init__(self, summary: int, cells: Stack) -> None:
        super().__init__()
        self.parts, self.width = [cell.parts for cell in cells.layers], cells.width
        size = sum(self.parts) * self.width
        if summary != size:
            raise ValueError(
                f"the encoder's summary cannot be copied: it has {summary} numbers, and the cells require {size}"
            )

    def forward(self, final: Float[Tensor, "sentences summary"]) -> Layers:
        carried = iter(final.split(self.width, 1))
        return tuple(tuple(next(carried) for _ in range(parts)) for parts in self.parts)
