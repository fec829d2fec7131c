"""Model of an encoder whose only output is CTC, without a decoder."""

from __future__ import annotations

from jaxtyping import Int, Shaped
from torch import Tensor, nn

from regard.attention.contract import Encoder
from regard.attention.span import Span
from regard.models.ctc import Ctc
from regard.models.encoder_decoder import PairLoss


class CtcModel(nn.Module):
    """An encoder and CTC over its states, with the ``loss`` of ``EncoderDecoder``."""

    def __init__(self, encoder: Encoder, ctc: Ctc) -> None:
        super().__init__()
        self.encoder, self.ctc = encoder, ctc

    def forward(
        self,
        source: Shaped[Tensor, "batch source *features"],
        source_span: Span,
        output: Int[Tensor, "batch target"],
        target_span: Span,
    ) -> PairLoss:
        """Return the loss of outputs that end in END, which CTC does not predict."""
        loss = self.ctc.loss(self.encoder(source, source_span), output, target_span.length - 1)
        return PairLoss(loss, loss.detach(), loss)

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
        """Return −log P(output | source) in nats; ``target`` and ``smoothing``, of decoders, are not used."""
        loss: PairLoss = self(source, source_span, output, target_span)
        return loss
