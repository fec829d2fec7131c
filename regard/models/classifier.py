"""Encoders with a classification head: of states pooled to one vector, or of the state of each token."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from regard.attention.contract import Encoder
from regard.attention.span import Span
from regard.models.build import ARCHITECTURES
from regard.models.classifier_config import ClassifierModelConfig, TaggerModelConfig
from regard.models.dropout import Dropout
from regard.models.head import start_at_zero
from regard.models.input import Input, text_input


class Classified(NamedTuple):
    """Logits of each example, and the weight of each position in the vector of its row; see ``separate`` for pairs."""

    logits: Float[Tensor, "examples classes"]
    weights: Float[Tensor, "rows length"]


class SequenceClassifier(nn.Module):
    """W Σ_j α_j h_j + b. α is 1 at one position, equal for all valid ones, or softmax(v·tanh(U h_j)) (``pooling``).

    The last is additive attention with one learned query (Yang et al. 2016, §2.2).

    ``separate``: an example is two consecutive rows, each encoded separately, to u and v. Its logits are
    W max(0, W_c [u; v; |u − v|; u ∘ v] + b_c) + b (Conneau et al. 2017, §3.1).
    """

    def __init__(self, encoder: Encoder, classes: int, *, pooling: str, dropout: float, separate: bool = False) -> None:
        super().__init__()
        self.encoder, self.pooling, self.dropout = encoder, pooling, Dropout(dropout)
        self.compare = nn.Linear(4 * encoder.width, encoder.width) if separate else None
        self.output = nn.Linear(encoder.width, classes)
        if pooling == "attention":
            self.key, self.query = nn.Linear(encoder.width, encoder.width), nn.Linear(encoder.width, 1, bias=False)

    def forward(self, inputs: Shaped[Tensor, "rows length *features"], span: Span) -> Classified:
        encoded = self.encoder(inputs, span)
        weights = self._weigh(encoded.states, encoded.span.valid)
        pooled = torch.einsum("rl,rlw->rw", weights, encoded.states)
        if self.compare is not None:
            one, other = pooled.unflatten(0, (-1, 2)).unbind(1)
            both = torch.cat([one, other, (one - other).abs(), one * other], -1)
            pooled = self.compare(self.dropout(both)).relu()
        return Classified(self.output(self.dropout(pooled)), weights)

    def _weigh(
        self, states: Float[Tensor, "rows length width"], valid: Bool[Tensor, "rows length"]
    ) -> Float[Tensor, "rows length"]:
        """Return the weights of the positions; 0 for padding."""
        if self.pooling == "attention":
            energy = self.query(torch.tanh(self.key(states)))[..., 0]
            return energy.masked_fill(~valid, -torch.inf).softmax(-1)
        length = valid.sum(1, keepdim=True)
        if self.pooling == "mean":
            return valid.to(states.dtype) / length
        index = torch.arange(valid.shape[1], device=valid.device)
        return (index == (length - 1 if self.pooling == "last" else 0)).to(states.dtype).expand(len(valid), -1)


def token_input(config: ClassifierModelConfig, types: int) -> Input:
    """Return the input layer of a classifier of tokens, initialized from torch's default generator."""
    return text_input(types, config.encoder.embedding_width, affixes=config.affixes)


def build_classifier(config: ClassifierModelConfig, input: Input, *, classes: int) -> SequenceClassifier:
    """Return a classifier of that config over ``input``, initialized from torch's default generator."""
    encoder = ARCHITECTURES[config.encoder.kind].encoder(config.encoder, input)
    net = SequenceClassifier(
        encoder, classes, pooling=config.pooling, dropout=config.encoder.dropout, separate=config.pairs == "apart"
    )  # fmt: skip
    if config.starts_at_zero:
        start_at_zero(net.output)
    return net


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
    net = TokenTagger(encoder, classes, dropout=config.encoder.dropout)
    if config.starts_at_zero:
        start_at_zero(net.output)
    return net
