"""An encoder with a classification head for each token."""

from __future__ import annotations

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from regard.attention.contract import Encoder
from regard.attention.span import Span
from regard.models.build import ARCHITECTURES
from regard.models.dropout import Dropout
from regard.models.input import text_input
from regard.models.tagger_config import TaggerModelConfig


class TokenTagger(nn.Module):
    """W h_j + b for each position j: the logits of its classes, independent of other positions' classes."""

    def __init__(self, encoder: Encoder, classes: int, *, dropout: float) -> None:
        super().__init__()
        self.encoder, self.dropout = encoder, Dropout(dropout)
        self.output = nn.Linear(encoder.width, classes)

    def forward(
        self, inputs: Shaped[Tensor, "rows length *features"], span: Span
    ) -> Float[Tensor, "rows length classes"]:
        logits: Tensor = self.output(self.dropout(self.encoder(inputs, span).states))
        return logits


def build_tagger(config: TaggerModelConfig, *, types: int, classes: int) -> TokenTagger:
    """Build a tagger of that config, initialized from torch's default generator."""
    words = text_input(types, config.encoder.embedding_width, affixes=config.affixes)
    encoder = ARCHITECTURES[config.encoder.kind].encoder(config.encoder, words)
    return TokenTagger(encoder, classes, dropout=config.encoder.dropout)
