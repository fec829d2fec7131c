"""Embeddings of models that tell positions apart by themselves."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.dropout import Dropout

__all__ = ["TokenEmbedding"]


class TokenEmbedding(nn.Module):
    """Dropout(E[token]), unscaled and without a position. ``weight`` E (types, width) may be shared with the output."""

    def __init__(self, weight: nn.Parameter, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.weight, self.dropout = weight, Dropout(dropout)
        self.width = weight.shape[1]

    def forward(self, tokens: Int[Tensor, "rows length"]) -> Float[Tensor, "rows length width"]:
        return self.dropout(nn.functional.embedding(tokens, self.weight))
