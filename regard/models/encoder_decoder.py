"""Model of any encoder and any decoder, with the ``step`` that search calls."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.attention.contract import Decoder, Encoded, Encoder, Memory, RowMap, compact
from regard.attention.span import Span
from regard.core.state import State, join, repeat, select, truncate
from regard.models.copying import Copying, Pointed, mixture
from regard.models.cross_entropy import Loss, smoothed_nll
from regard.models.ctc import Ctc
from regard.models.head import Head


def shift_right(output: Int[Tensor, "rows length"], begin: int) -> Int[Tensor, "rows length"]:
    """Return decoder inputs for teacher forcing: ``begin``, then every output token except the last."""
    return torch.cat([torch.full_like(output[:, :1], begin), output[:, :-1]], 1)


class PairLoss(NamedTuple):
    """Sums of a batch of pairs, in nats.

    Attributes:
        smoothed: the loss that training minimizes.
        nll: of the decoder, without smoothing.
        ctc: of CTC; None without it.
    """

    smoothed: Float[Tensor, ""]
    nll: Float[Tensor, ""]
    ctc: Float[Tensor, ""] | None = None


class Session(NamedTuple):
    """State of search between two steps.

    ``select`` also drops sentences that no row reads any more, once they are half of the memory.

    Attributes:
        memory: of the sentences that are read.
        state: of the decoder.
        sentences: their number.
        copied: pointer memory of a model with copying, () for any other.
    """

    memory: Memory
    state: State
    sentences: int
    copied: Memory = ()

    def select(self, rows: Int[Tensor, "rows"]) -> Session:
        state = select(self.state, rows)
        alive = len(torch.unique(state.rows))
        if 2 * alive > self.sentences:
            return self._replace(state=state)
        (memory, copied), state = compact((self.memory, self.copied), state)
        return Session(memory, state, alive, copied)

    def repeat(self, times: int) -> Session:
        return self._replace(state=repeat(self.state, times))

    def truncate(self, length: Int[Tensor, "rows"]) -> Session:
        return self._replace(state=truncate(self.state, length))

    def join(self, sessions: list[Session]) -> Session:
        offsets = torch.tensor([0, *(session.sentences for session in sessions)]).cumsum(0).tolist()
        states = [s.state._replace(rows=s.state.rows + n) for s, n in zip(sessions, offsets[:-1], strict=True)]
        memory, copied = join([(session.memory, session.copied) for session in sessions])
        return Session(memory, join(states), offsets[-1], copied)


class EncoderDecoder(nn.Module):
    """An encoder, a decoder and the output projection.

    Args:
        encoder: reads tokens or frames.
        decoder: reads the encoder's states.
        head: the output projection.
        copying: outputs may repeat source tokens.
        ctc: a second output of the encoder's states, which training and joint search use.
        ctc_weight: λ of the loss (1 − λ) · (loss of the decoder) + λ · (loss of CTC) (Watanabe et al. 2017, Eq. 13).
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        head: Head,
        copying: Copying | None = None,
        *,
        ctc: Ctc | None = None,
        ctc_weight: float = 0.0,
    ) -> None:
        super().__init__()
        self.head, self.encoder, self.decoder, self.copying = head, encoder, decoder, copying
        self.ctc, self.ctc_weight = ctc, ctc_weight

    def forward(
        self,
        source: Shaped[Tensor, "batch source *features"],
        source_span: Span,
        target: Int[Tensor, "batch target"],
        target_span: Span,
        *,
        output: Int[Tensor, "batch target"] | None = None,
        smoothing: float = 0.0,
    ) -> Float[Tensor, "batch target width"] | PairLoss:
        """Return, with teacher forcing, the features of each target position, or the ``loss`` of an ``output``.

        The spans are those of ``source`` and ``target``.
        """
        encoded = self.encoder(source, source_span)
        session = self.start(encoded, source)
        decoded = self.decoder(target, target_span, session.memory, session.state)
        if output is None:
            return decoded.features
        smoothed, nll = self._loss(decoded.features, session, target_span, output, smoothing)
        smoothed = sum(decoded.losses.values(), smoothed)
        if self.ctc is None:
            return PairLoss(smoothed, nll)
        ctc = self.ctc.loss(encoded, output, target_span.length - 1)  # without END
        return PairLoss((1 - self.ctc_weight) * smoothed + self.ctc_weight * ctc, nll, ctc)

    def loss(
        self,
        source: Shaped[Tensor, "batch source *features"],
        source_span: Span,
        target: Int[Tensor, "batch target"],
        target_span: Span,
        output: Int[Tensor, "batch target"],
        *,
        smoothing: float,
    ) -> PairLoss:
        """Return the cross-entropy of ``output`` at every valid position, with teacher forcing, summed, in nats.

        Computed by ``forward``, because wrappers of the network such as FSDP2 hook into ``forward``.
        """
        loss: PairLoss = self(source, source_span, target, target_span, output=output, smoothing=smoothing)
        return loss

    def _loss(
        self,
        features: Float[Tensor, "batch target width"],
        session: Session,
        span: Span,
        output: Int[Tensor, "batch target"],
        smoothing: float,
    ) -> Loss:
        valid = span.valid
        if self.copying is None:
            return self.head.loss(features[valid], output[valid], smoothing=smoothing)
        pointed = self.copying(features, span, session.copied, _rows(session))
        chosen = Pointed(*(part[valid] for part in pointed))
        log_p = mixture(self.head(features[valid]), chosen)
        return smoothed_nll(log_p, output[valid], smoothing=smoothing)

    def log_probabilities(
        self,
        source: Shaped[Tensor, "batch source *features"],
        source_span: Span,
        target: Int[Tensor, "batch target"],
        target_span: Span,
    ) -> Float[Tensor, "batch target types"]:
        """Return log-probabilities of every type at every target position, with teacher forcing."""
        session = self.session(source, source_span)
        features = self.decoder(target, target_span, session.memory, session.state).features
        return self._log_probabilities(features, target_span, session)

    def session(self, source: Shaped[Tensor, "sentences length *features"], span: Span) -> Session:
        """Encode the sources once; return the session before the first target token, with one row per sentence."""
        return self.start(self.encoder(source, span), source)

    def start(self, encoded: Encoded, source: Shaped[Tensor, "sentences length *features"]) -> Session:
        """Return the session of encoded sources before the first target token."""
        memory = self.decoder.prepare(encoded)
        rows = torch.arange(len(source), device=source.device)
        copied = () if self.copying is None else self.copying.prepare(encoded, source)
        return Session(memory, self.decoder.start(memory, rows), len(source), copied)

    def step(
        self, tokens: Int[Tensor, "rows length"], session: Session, span: Span | None = None
    ) -> tuple[Float[Tensor, "rows length types"], Session]:
        """Return log-probabilities after each token, in float32 or wider, and the session after all tokens.

        Args:
            tokens: of each row, one or more positions.
            session: before these tokens.
            span: of the tokens; None: they follow the tokens read so far, without padding, and see the whole source.
        """
        span = Span.without_padding(tokens, session.state.length) if span is None else span
        decoded = self.decoder(tokens, span, session.memory, session.state)
        return self._log_probabilities(decoded.features, span, session), session._replace(state=decoded.state)

    def _log_probabilities(
        self, features: Float[Tensor, "rows length width"], span: Span, session: Session
    ) -> Float[Tensor, "rows length types"]:
        if self.copying is None:
            return self.head.log_probabilities(features)
        return mixture(self.head(features), self.copying(features, span, session.copied, _rows(session)))


def _rows(session: Session) -> RowMap:
    return RowMap.of(session.state.rows, session.sentences)
