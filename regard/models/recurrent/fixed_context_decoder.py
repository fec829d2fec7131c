"""Recurrent decoder without attention: one vector represents the source."""

from __future__ import annotations

import torch
from jaxtyping import Int, Shaped
from torch import Tensor, nn

from regard.attention.contract import Decoded, Encoded
from regard.attention.span import Span
from regard.core.state import select
from regard.models.input import Input
from regard.models.recurrent.bridge import Bridge
from regard.models.recurrent.decoder_memory import RecurrentDecoder, RecurrentMemory, RecurrentState
from regard.models.recurrent.stack import Stack


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
