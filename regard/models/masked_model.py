"""A masked model: a bidirectional encoder, and the output projection of its states.

The encoder may be a continuous bag of words: for each token, the mean of the embeddings around it without its own.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.attention.contract import Encoded, Encoder, mean_state
from regard.attention.span import Span
from regard.models.build import ARCHITECTURES
from regard.models.gap_gate import GapGate
from regard.models.head import Head
from regard.models.input import Input, TokenInput, embedding_matrix
from regard.models.masked_config import ContextMeanConfig, MaskedModelConfig
from regard.models.transformer.feed_forward import PLAIN, Elementwise


class MaskedModel(nn.Module):
    """P(token | all visible tokens) at each position (Devlin et al. 2019).

    Embeddings have one type more than the output vocabulary: the mask, which is last and never predicted. ``gate`` has
    the exponents of a product with tables, which the objective and the predictor use; the outputs of the model are
    those of the network alone.

    Args:
        encoder: reads tokens.
        head: the output projection.
        transform: the layer before the output, as in the paper; None: no such layer.
    """

    def __init__(self, encoder: Encoder, head: Head, transform: OutputTransform | None = None) -> None:
        super().__init__()
        self.encoder, self.head, self.transform = encoder, head, transform
        self.gate: GapGate | None = None

    def forward(self, inputs: Int[Tensor, "rows length"], span: Span) -> Float[Tensor, "rows length width"]:
        """Return the features of each position, given all valid positions of its row."""
        states: Tensor = self.encoder(inputs, span).states
        return states if self.transform is None else self.transform(states)

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
        encoder = ARCHITECTURES[side.kind].encoder(side, TokenInput(embedding, mask=types))
    bias = nn.Parameter(torch.zeros(types + 1)) if config.output_bias else None
    return MaskedModel(encoder, Head(projection, bias), _transform(config, encoder.width, std))


def _transform(config: MaskedModelConfig, width: int, std: float | None) -> OutputTransform | None:
    """Return the layer before the output, whose norm has the ε of the encoder's norms."""
    if config.transform == "none":
        return None
    epsilon = getattr(config.encoder, "normalization_epsilon", None) or 1e-5
    transform = OutputTransform(width, activation=PLAIN[config.transform], epsilon=epsilon)
    if std is not None:
        nn.init.normal_(transform.dense.weight, std=std)
        nn.init.zeros_(transform.dense.bias)
    return transform


class OutputTransform(nn.Module):
    """LayerNorm(act(W x + b)) of the states before the output projection, as in BERT's code (Devlin et al. 2019)."""

    def __init__(self, width: int, *, activation: Elementwise, epsilon: float) -> None:
        super().__init__()
        self.dense, self.norm, self.activation = nn.Linear(width, width), nn.LayerNorm(width, eps=epsilon), activation

    def forward(self, states: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape width"]:
        transformed: Tensor = self.norm(self.activation(self.dense(states)))
        return transformed


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
