"""Bahdanau's decoder: attention before the cells; a maxout layer combines state, embedding and context."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from regard.attention.contract import Decoded, Reader, RowMap, sentences
from regard.attention.span import Span
from regard.models.input import Input
from regard.models.recurrent.bridge import Bridge
from regard.models.recurrent.decoder_memory import RecurrentDecoder, RecurrentMemory, RecurrentState, valid_columns
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
