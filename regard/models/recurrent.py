"""Luong's recurrent decoder: LSTM cells, input feeding, and a reader of any kind."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.contract import Decoded, Decoder, Encoded, Memory, Reader, Rows
from regard.attention.mask import Span
from regard.state import State

__all__ = ["LuongDecoder", "LuongMemory", "LuongState"]


class LuongMemory(NamedTuple):
    """What the reader prepared, and the encoder's summary ``final``."""

    source: Memory
    final: Float[Tensor, "sentences summary"]


class LuongState(NamedTuple):
    """What the cell carries from step to step.

    The layers' ``hidden`` and ``cell``; ``feed``, the last h̃; the reader's state; ``length``, the position; ``rows``,
    the sentence each row reads.
    """

    hidden: Float[Tensor, "rows layers width"]
    cell: Float[Tensor, "rows layers width"]
    feed: Float[Tensor, "rows width"]
    reader: State
    length: Int[Tensor, "rows"]
    rows: Int[Tensor, "rows"]


class LuongDecoder(Decoder):
    """h_t = LSTM([E y_{t−1}; h̃_{t−1}]), c_t read with h_t, h̃_t = tanh(W_c [c_t; h_t])

    (Luong et al. 2015, Eq. 5 and §3.3 "input feeding"; h̃_0 = 0). The features are h̃_t. ``embedding`` (types, any
    width); ``summary`` is the width of the encoder's ``final``, from which each layer starts at tanh(W final + b)
    with an empty cell. A padded step leaves the state alone. Cost per step: layers · 8 · width² multiply-adds, one
    step after the other. Differs from the paper in: the paper copies the encoder's last hidden and cell states.
    """

    def __init__(self, embedding: nn.Embedding, reader: Reader, *, width: int, layers: int, summary: int) -> None:
        super().__init__()
        self.embedding, self.reader = embedding, reader
        entering = [embedding.embedding_dim + width] + [width] * (layers - 1)
        self.cells = nn.ModuleList(nn.LSTMCell(enter, width) for enter in entering)
        self.bridge = nn.Linear(summary, layers * width)
        self.combine = nn.Linear(2 * width, width, bias=False)

    def prepare(self, encoded: Encoded) -> LuongMemory:
        return LuongMemory(self.reader.prepare(encoded), encoded.final)

    def start(self, memory: LuongMemory, rows: Int[Tensor, "rows"]) -> LuongState:
        hidden = torch.tanh(self.bridge(memory.final)).index_select(0, rows).unflatten(1, (len(self.cells), -1))
        reader = self.reader.start(memory.source, Rows.of(rows, len(memory.final)))
        feed = hidden.new_zeros(len(rows), hidden.shape[2])
        return LuongState(hidden, torch.zeros_like(hidden), feed, reader, torch.zeros_like(rows), rows)

    def forward(
        self,
        tokens: Int[Tensor, "rows length"],
        memory: LuongMemory,
        state: LuongState,
        *,
        valid: Bool[Tensor, "rows length"] | None = None,
    ) -> Decoded:
        valid = torch.ones_like(tokens, dtype=torch.bool) if valid is None else valid
        rows = Rows.of(state.rows, len(memory.final))
        features = []
        for embedded, counts in zip(self.embedding(tokens).unbind(1), valid.unbind(1), strict=True):
            state = self._step(embedded, counts, memory, rows, state)
            features.append(state.feed)
        return Decoded(torch.stack(features, 1), state)

    def _step(
        self,
        embedded: Float[Tensor, "rows embedding"],
        counts: Bool[Tensor, "rows"],
        memory: LuongMemory,
        rows: Rows,
        state: LuongState,
    ) -> LuongState:
        """One token a row; rows where ``counts`` is False stay as they are."""
        x, hidden, cell = torch.cat([embedded, state.feed], 1), [], []
        for layer, module in enumerate(self.cells):
            h, c = module(x, (state.hidden[:, layer], state.cell[:, layer]))
            hidden.append(h)
            cell.append(c)
            x = h
        span = Span(state.length, counts[:, None])
        mixed = self.reader(x[:, None], span, memory.source, rows, state.reader)
        feed = torch.tanh(self.combine(torch.cat([mixed.output[:, 0], x], 1)))
        return LuongState(
            torch.where(counts[:, None, None], torch.stack(hidden, 1), state.hidden),
            torch.where(counts[:, None, None], torch.stack(cell, 1), state.cell),
            torch.where(counts[:, None], feed, state.feed),
            mixed.state,
            state.length + counts,
            state.rows,
        )
