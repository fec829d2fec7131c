"""Recurrent decoders: attention before the cells (Bahdanau), after them (Luong), or one vector for the source."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.attention.contract import Decoded, Encoded, Reader, RowMap, sentences
from regard.attention.span import Span
from regard.core.state import select
from regard.models.input import Input
from regard.models.recurrent.decoder_memory import (
    Bridge,
    RecurrentDecoder,
    RecurrentMemory,
    RecurrentState,
    valid_columns,
)
from regard.models.recurrent.stack import Stack


class BahdanauDecoder(RecurrentDecoder):
    """c_i read with s_{i−1}, s_i = cells([E y_{i−1}; c_i], s_{i−1}), t̃_i = U_o s_{i−1} + V_o E y_{i−1} + C_o c_i,

    t_ij = max(t̃_{i,2j−1}, t̃_{i,2j}) (Bahdanau et al. 2015, A.2.2). The features are t_i after dropout. They use the
    state *before* the cell ran, which therefore affects the next token only. One matrix W of the first cell over [E y;
    c] is W, C of the paper, for candidate and gates; ``read_out`` is [U_o V_o C_o]. ``readout``: l, the width of the
    features; the other arguments are those of ``RecurrentDecoder``. With several layers, the top layer's state is the
    query, and c_i is an input of the lowest layer. A padded step does not change the state.
    Cost: positions are processed one by one, including attention; the maxout layer processes all at once. Differs from
    the paper in: any cell, with biases.
    """

    def __init__(
        self,
        embedding: Input,
        cells: Stack,
        reader: Reader,
        bridge: Bridge,
        *,
        readout: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(embedding, cells, reader, bridge, width=readout, dropout=dropout)
        self.read_out = nn.Linear(cells.width + embedding.width + reader.width, 2 * readout, bias=False)

    def forward(
        self,
        inputs: Shaped[Tensor, "rows length *features"],
        span: Span,
        memory: RecurrentMemory,
        state: RecurrentState,
    ) -> Decoded:
        rows, step = RowMap.of(state.rows, sentences(memory)), self.cells.step_function()
        layers, reader = state.layers, state.reader
        embedded, span, _ = self.embedding(inputs, span)
        span.refuse_limit(self)  # the first state summarizes the whole source
        queries, contexts = [], []
        for x, column, counts in zip(embedded.unbind(1), span.split_columns(), valid_columns(span.valid), strict=True):
            queries.append(layers[-1][0])
            read = self.reader(queries[-1][:, None], column, memory.source, rows, reader)
            contexts.append(read.output[:, 0])
            _, layers = step(torch.cat([x, contexts[-1]], 1), counts, layers)
            reader = read.state
        inputs_of_maxout = torch.cat([torch.stack(queries, 1), embedded, torch.stack(contexts, 1)], 2)
        features = self.dropout(_maxout(self.read_out(inputs_of_maxout)))
        return Decoded(features, RecurrentState(layers, (), reader, state.length + span.length, state.rows))


def _maxout(x: Float[Tensor, "*columns pairs"]) -> Float[Tensor, "*columns units"]:
    """Return the larger of neighbors 2j − 1 and 2j (Goodfellow et al. 2013)."""
    return x.unflatten(-1, (-1, 2)).amax(-1)


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


class FixedContextDecoder(RecurrentDecoder):
    """c = tanh(V final + b), h_t = cells([E y_{t−1}; c], h_{t−1}): the same c at every step

    (Cho et al. 2014, §2.2 and A.1.2; RNNencdec of Bahdanau et al. 2015). The features are h_t, after dropout. The
    cells also start from the summary, through ``bridge``. Cost: that of the cells; all positions run at once. Differs
    from the paper in: the output depends on y_{t−1} and c only through h_t (as in Sutskever et al. 2014, who provide
    the summary at the start only).
    """

    def __init__(self, embedding: Input, cells: Stack, bridge: Bridge, *, summary: int, dropout: float = 0.0) -> None:
        super().__init__(embedding, cells, None, bridge, width=cells.width, dropout=dropout)
        self.summary_proj = nn.Linear(summary, cells.width)

    def prepare(self, encoded: Encoded) -> RecurrentMemory:
        return RecurrentMemory(torch.tanh(self.summary_proj(encoded.final)), self.bridge(encoded.final))

    def start(self, memory: RecurrentMemory, rows: Int[Tensor, "rows"]) -> RecurrentState:
        return RecurrentState(select(memory.first, rows), (), (), torch.zeros_like(rows), rows)

    def forward(
        self,
        inputs: Shaped[Tensor, "rows length *features"],
        span: Span,
        memory: RecurrentMemory,
        state: RecurrentState,
    ) -> Decoded:
        embedded, span, _ = self.embedding(inputs, span)
        span.refuse_limit(self)  # the first state summarizes the whole source
        length = span.length
        context = memory.source.index_select(0, state.rows)[:, None].expand(-1, embedded.shape[1], -1)
        hidden, layers = self.cells.run(torch.cat([embedded, context], 2), length, state.layers)
        after = RecurrentState(layers, (), (), state.length + length, state.rows)
        return Decoded(self.dropout(hidden), after)
