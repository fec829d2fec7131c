"""Model of any encoder and any decoder, with the ``step`` that search calls."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.contract import Decoder, Encoder, Memory, compact
from regard.core.state import State, join, repeat, select, truncate
from regard.models.head import Head

__all__ = ["EncoderDecoder", "Session", "shift_right"]


def shift_right(output: Int[Tensor, "rows length"], begin: int) -> Int[Tensor, "rows length"]:
    """Decoder inputs of teacher forcing: ``begin``, then every output token but the last."""
    return torch.cat([torch.full_like(output[:, :1], begin), output[:, :-1]], 1)


class Session(NamedTuple):
    """State of search between two steps: the memory of the sentences being read and the decoder's state.

    ``select`` also drops sentences that no row reads any more, once they are half of the memory.
    """

    memory: Memory
    state: State
    sentences: int

    def select(self, rows: Int[Tensor, "rows"]) -> Session:
        state = select(self.state, rows)
        alive = len(torch.unique(state.rows))
        if 2 * alive > self.sentences:
            return self._replace(state=state)
        return Session(*compact(self.memory, state), alive)

    def repeat(self, times: int) -> Session:
        return self._replace(state=repeat(self.state, times))

    def truncate(self, length: Int[Tensor, "rows"]) -> Session:
        return self._replace(state=truncate(self.state, length))

    def join(self, sessions: list[Session]) -> Session:
        offsets = torch.tensor([0, *(session.sentences for session in sessions)]).cumsum(0).tolist()
        states = [s.state._replace(rows=s.state.rows + at) for s, at in zip(sessions, offsets[:-1], strict=True)]
        return Session(join([s.memory for s in sessions]), join(states), offsets[-1])


class EncoderDecoder(nn.Module):
    """An encoder, a decoder and the output projection."""

    def __init__(self, encoder: Encoder, decoder: Decoder, head: Head) -> None:
        super().__init__()
        self.head, self.encoder, self.decoder = head, encoder, decoder

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        source_valid: Bool[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        target_valid: Bool[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target width"]:
        """Teacher forcing: features of every target position, given the tokens before it."""
        memory = self.decoder.prepare(self.encoder(source, source_valid))
        rows = torch.arange(len(source), device=source.device)
        return self.decoder(target, memory, self.decoder.start(memory, rows), valid=target_valid).features

    def session(
        self, source: Int[Tensor, "sentences length"], source_valid: Bool[Tensor, "sentences length"]
    ) -> Session:
        """Session before the first target token: sources encoded once, one row per sentence."""
        memory = self.decoder.prepare(self.encoder(source, source_valid))
        rows = torch.arange(len(source), device=source.device)
        return Session(memory, self.decoder.start(memory, rows), len(source))

    def step(
        self, tokens: Int[Tensor, "rows length"], session: Session
    ) -> tuple[Float[Tensor, "rows length types"], Session]:
        """Log-probabilities after each token, in float32 or wider, and the session after all of them."""
        features, state = self.decoder(tokens, session.memory, session.state)
        return self.head.log_probabilities(features), session._replace(state=state)
