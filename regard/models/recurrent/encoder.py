"""Recurrent encoder: cells over the source in one direction or both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.attention.contract import Encoded, Encoder
from regard.attention.span import Span
from regard.models.dropout import Dropout
from regard.models.input import Input
from regard.models.recurrent.cells import Carried, Cell


class RecurrentEncoder(Encoder):
    """h_j = [→h_j; ←h_j], →h_j over x_1 … x_j and ←h_j over x_S … x_j (Bahdanau et al. 2015, A.2.1).

    A layer is one cell, or one for each direction; the next layer reads both concatenated, after dropout. The
    right-to-left cell starts at the last valid token. ``final`` holds, layer by layer, the last carried tensors of
    every cell, all hidden states of a layer before the LSTM cells. ←h_1 is part of it (the first state of Bahdanau et
    al.). With one direction it is the state that Luong et al. copy. ``reversed``, for one direction only: every layer
    reads from the end, "reversing the source" of Luong et al.; a state stays with its token. Cost: that of the cells,
    one position after the other.
    """

    def __init__(
        self,
        embedding: Input,
        layers: Sequence[Sequence[Cell]],
        *,
        dropout: float = 0.0,
        reversed: bool = False,
    ) -> None:
        super().__init__()
        if reversed and len(layers[0]) > 1:
            raise ValueError("reversed requires an encoder with one direction")
        self.reversed = reversed
        self.embedding, self.dropout = embedding, Dropout(dropout)
        self.layers = nn.ModuleList(nn.ModuleList(cells) for cells in layers)
        self.width = sum(cell.width for cell in layers[-1])
        self.summary = sum(cell.width * cell.parts for cells in layers for cell in cells)

    @property
    def stack(self) -> Iterable[Iterable[Cell]]:
        return cast(Iterable[Iterable[Cell]], self.layers)

    def forward(self, inputs: Shaped[Tensor, "sentences length *features"], span: Span) -> Encoded:
        embedded, span, _ = self.embedding(inputs, span)
        span.refuse_limit(self)
        length = span.length
        backwards = _reversing(length, embedded.shape[1])
        orders = (backwards,) if self.reversed else (None, backwards)
        x, final = embedded, []
        for number, cells in enumerate(self.stack):
            x = self.dropout(x) if number else x
            states: list[Tensor] = []
            carried: list[Carried] = []
            for cell, order in zip(cells, orders, strict=False):
                state, last = cell.run(_take(x, order), length, cell.start(len(x)))
                states.append(_take(state, order))
                carried.append(last)
            x = torch.cat(states, 2)
            final += [part for parts in zip(*carried, strict=True) for part in parts]
        return Encoded(x, embedded, torch.cat(final, 1), span)


def _reversing(length: Int[Tensor, "sentences"], columns: int) -> Int[Tensor, "sentences {columns}"]:
    """Return indices that reverse the valid positions of each sentence and leave padding in place."""
    index = torch.arange(columns, device=length.device)
    back = length[:, None] - 1 - index
    return torch.where(back >= 0, back, index)


def _take(
    x: Float[Tensor, "sentences length width"], order: Int[Tensor, "sentences length"] | None
) -> Float[Tensor, "sentences length width"]:
    return x if order is None else x.gather(1, order[..., None].expand(-1, -1, x.shape[2]))
