"""Continuous bag of words as an encoder: for each token, the mean of the embeddings around it without its own."""

from __future__ import annotations

import torch
from jaxtyping import Shaped
from torch import Tensor

from regard.attention.contract import Encoded, Encoder, mean_state
from regard.attention.span import Span
from regard.models.input import Input


class ContextMeanEncoder(Encoder):
    """h_i = mean of E[x_j], 0 < |i − j| ≤ window (Mikolov et al. 2013, CBOW); ``window`` None: all other tokens.

    Differs from the paper, which sums the context over words drawn from the window. A single token has h = 0.
    """

    def __init__(self, embedding: Input, window: int | None) -> None:
        super().__init__()
        self.embedding, self.window = embedding, window
        self.width = self.summary = embedding.width

    def forward(self, inputs: Shaped[Tensor, "sentences length *features"], span: Span) -> Encoded:
        embedded, span, _ = self.embedding(inputs, span)
        span.refuse_limit(self)
        index = torch.arange(embedded.shape[1], device=embedded.device)
        distance = (index[:, None] - index).abs()
        near = (distance > 0) if self.window is None else (distance > 0) & (distance <= self.window)
        weight = (near & span.valid[:, None]).to(embedded.dtype)
        states = (weight @ embedded) / weight.sum(-1, keepdim=True).clamp_min(1)
        return Encoded(states, embedded, mean_state(states, span), span)
