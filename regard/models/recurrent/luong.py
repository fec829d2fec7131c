"""Luong's decoders: attention after the cells; with and without input feeding."""

from __future__ import annotations

import torch
from jaxtyping import Int, Shaped
from torch import Tensor, nn

from regard.attention.contract import Decoded, Reader, RowMap, sentences
from regard.attention.span import Span
from regard.models.input import Input
from regard.models.recurrent.bridge import Bridge
from regard.models.recurrent.decoder_memory import RecurrentDecoder, RecurrentMemory, RecurrentState, valid_columns
from regard.models.recurrent.stack import Stack


class LuongDecoder(RecurrentDecoder):
    """h_t = cells(E y_{t−1}), c_t read with h_t, h̃_t = tanh(W_c [c_t; h_t]) (Luong et al. 2015, Eq. 5).

    The features are h̃_t, after dropout. Since h̃ is not fed back, cells and attention each process all positions in
    one call. Cost: that of the cells, one position after the other, and of the reader.
    """

    def __init__(self, embedding: Input, cells: Stack, reader: Reader, bridge: Bridge, *, dropout: float = 0.0) -> None:
        super().__init__(embedding, cells, reader, bridge, width=cells.width, dropout=dropout)
        self.combine = nn.Linear(reader.width + cells.width, cells.width, bias=False)

    def forward(
        self,
        inputs: Shaped[Tensor, "rows length *features"],
        span: Span,
        memory: RecurrentMemory,
        state: RecurrentState,
    ) -> Decoded:
        rows = RowMap.of(state.rows, sentences(memory))
        embedded, span, _ = self.embedding(inputs, span)
        span.refuse_limit(self)  # the first state summarizes the whole source
        length = span.length
        hidden, layers = self.cells.run(embedded, length, state.layers)
        read = self.reader(hidden, span, memory.source, rows, state.reader)
        features = torch.tanh(self.combine(torch.cat([read.output, hidden], 2)))
        after = RecurrentState(layers, (), read.state, state.length + length, state.rows)
        return Decoded(self.dropout(features), after)


class InputFeedingDecoder(LuongDecoder):
    """Luong's decoder with h_t = cells([E y_{t−1}; h̃_{t−1}]), h̃_0 = 0 (Luong et al. 2015, §3.3).

    The input of the first cell is as wide as embedding and h̃ together. h̃ is fed back without dropout, which is applied
    to the features only. A padded step does not change the state. Cost: one position after the other, with attention.
    """

    def start(self, memory: RecurrentMemory, rows: Int[Tensor, "rows"]) -> RecurrentState:
        state = super().start(memory, rows)
        return state._replace(feed=torch.zeros_like(state.layers[-1][0]))

    def forward(
        self,
        inputs: Shaped[Tensor, "rows length *features"],
        span: Span,
        memory: RecurrentMemory,
        state: RecurrentState,
    ) -> Decoded:
        rows, step, features = RowMap.of(state.rows, sentences(memory)), self.cells.step_function(), []
        layers, feed, reader, _, _ = state
        embedded, span, _ = self.embedding(inputs, span)
        span.refuse_limit(self)  # the first state summarizes the whole source
        for x, column, counts in zip(embedded.unbind(1), span.split_columns(), valid_columns(span.valid), strict=True):
            hidden, layers = step(torch.cat([x, feed], 1), counts, layers)
            read = self.reader(hidden[:, None], column, memory.source, rows, reader)
            after = torch.tanh(self.combine(torch.cat([read.output[:, 0], hidden], 1)))
            features.append(after)
            feed = after if counts is None else torch.where(counts[:, None], after, feed)
            reader = read.state
        dropped = self.dropout(torch.stack(features, 1))
        return Decoded(dropped, RecurrentState(layers, feed, reader, state.length + span.length, state.rows))
