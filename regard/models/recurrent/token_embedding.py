"""Token embeddings without positions, for recurrent models."""

from __future__ import annotations

import math

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.dropout import Dropout

__all__ = ["TokenEmbedding"]


class TokenEmbedding(nn.Module):
    """Dropout(√width · E[token]), without a position; ``scaled`` False: Dropout(E[token]).

    ``weight`` E (types, width) may be shared with the output, which wants a standard deviation of 1/√width: cells fed
    with numbers that small learn slowly, so they get √width times as much, as a Transformer's layers do (Vaswani et
    al. 2017, §3.4). Differs from Bahdanau et al. 2015 and Luong et al. 2015, who do not share, and do not scale.
    """

    def __init__(self, weight: nn.Parameter, *, dropout: float = 0.0, scaled: bool = True) -> None:
        super().__init__()
        self.weight, self.dropout = weight, Dropout(dropout)
        self.width = weight.shape[1]
        self.scale = math.sqrt(self.width) if scaled else 1.0

    def forward(self, tokens: Int[Tensor, "rows length"]) -> Float[Tensor, "rows length width"]:
        return self.dropout(nn.functional.embedding(tokens, self.weight) * self.scale)
