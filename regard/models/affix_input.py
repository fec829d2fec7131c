"""Token embeddings to which those of a word's beginning, end and shape are added."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention.mask import Span
from regard.models.input import Embedded, Input, TokenInput

__all__ = ["AffixInput"]


class AffixInput(Input):
    """Dropout(scale · (E[token] + Σ_k F[affix_k]) + position), all but F that of ``tokens``.

    F (1 + buckets, width) is one table that all kinds of affixes are hashed into, so that a word never seen has a
    vector of what it shares with others (Bojanowski et al. 2017, §3.2, with affixes and a shape for all n-grams).
    Columns hold a token and the buckets of its affixes, from 1; 0 stands for none and adds nothing.
    """

    def __init__(self, tokens: TokenInput, buckets: int) -> None:
        super().__init__()
        self.tokens, self.width = tokens, tokens.width
        self.affixes = nn.Parameter(torch.empty(1 + buckets, self.width).normal_(std=self.width**-0.5))

    def forward(self, inputs: Int[Tensor, "rows length numbers"], span: Span) -> Embedded:
        buckets = inputs[..., 1:]
        told = (buckets > 0).to(self.affixes.dtype)
        added = torch.einsum("rlkw,rlk->rlw", nn.functional.embedding(buckets, self.affixes), told)
        x = nn.functional.embedding(inputs[..., 0], self.tokens.weight) + added
        return Embedded(self.tokens.place(x, span.position), span)
