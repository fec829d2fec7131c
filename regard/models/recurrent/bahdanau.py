"""Bahdanau's decoder: the source is read before the cells run; a maxout layer combines state, embedding and context."""

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

    t_ij = max(t̃_{i,2j−1}, t̃_{i,2j}) (Bahdanau et al. 2015, A.2.2). The features are t_i after dropout: made from the
    state *before* the cell ran, which therefore decides about the token after. One matrix W of the first cell over
    [E y; c] is W, C of the paper, for candidate and gates alike; ``read_out`` is [U_o V_o C_o]. ``readout``: l, the
    width of the features; the other arguments are those of ``RecurrentDecoder``. With several layers the top one's
    state reads, and c_i goes into the lowest. A padded step leaves the state alone.
    Cost: columns go one after the other, reading included; the maxout layer takes all at once. Differs from the paper
    in: the cell is any, with biases.
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
        span.refuse_limit(self)  # the first state is a summary of the whole source
        queries, contexts = [], []
        for x, column, counts in zip(embedded.unbind(1), span.split_columns(), valid_columns(span.valid), strict=True):
            queries.append(layers[-1][0])
            read = self.reader(queries[-1][:, None], column, memory.source, rows, reader)
            contexts.append(read.output[:, 0])
            _, layers = step(torch.cat([x, contexts[-1]], 1), counts, layers)
            reader = read.state
        together = torch.cat([torch.stack(queries, 1), embedded, torch.stack(contexts, 1)], 2)
        features = self.dropout(_maxout(self.read_out(together)))
        return Decoded(features, RecurrentState(layers, (), reader, state.length + span.length, state.rows))


def _maxout(x: Float[Tensor, "*columns pairs"]) -> Float[Tensor, "*columns units"]:
    """Larger of neighbors 2j − 1 and 2j (Goodfellow et al. 2013)."""
    return x.unflatten(-1, (-1, 2)).amax(-1)
