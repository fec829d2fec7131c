"""A masked model: a bidirectional encoder, and the output projection of its states."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.contract import Encoder
from regard.attention.span import Span
from regard.models.build import ARCHITECTURES
from regard.models.context_mean import ContextMeanEncoder
from regard.models.head import Head
from regard.models.input import TokenInput, embedding_matrix
from regard.models.masked_config import ContextMeanConfig, MaskedModelConfig


class MaskedModel(nn.Module):
    """P(token | all visible tokens) at each position (Devlin et al. 2019, without the layer before the output).

    Embeddings have one type more than the output vocabulary: the mask, which is last and never predicted.
    """

    def __init__(self, encoder: Encoder, head: Head) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, inputs: Int[Tensor, "rows length"], span: Span) -> Float[Tensor, "rows length width"]:
        """Return the features of each position, given all valid positions of its row."""
        states: Tensor = self.encoder(inputs, span).states
        return states

    def log_probabilities(self, features: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape types"]:
        """Return log-probabilities of every type (the mask's is last), in float32 or wider."""
        return self.head.log_probabilities(features)


def build_masked_model(config: MaskedModelConfig, types: int) -> MaskedModel:
    """Build the model for a vocabulary of ``types``, initialized from torch's default generator."""
    side = config.encoder
    std = getattr(side, "init_std", None)
    embedding = embedding_matrix(types + 1, side.embedding_width, std=std)
    projection = embedding if config.share == "all" else embedding_matrix(types + 1, side.features, std=std)
    encoder: Encoder
    if isinstance(side, ContextMeanConfig):
        encoder = ContextMeanEncoder(TokenInput(embedding).configure(dropout=side.dropout), side.window)
    else:
        encoder = ARCHITECTURES[side.kind].encoder(side, TokenInput(embedding))
    bias = nn.Parameter(torch.zeros(types + 1)) if config.output_bias else None
    return MaskedModel(encoder, Head(projection, bias))
