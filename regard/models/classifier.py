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
from regard.models.windows import Windows


class Classified(NamedTuple):
    """Logits of each example, and the weight of each position in the vector of its row; see ``separate`` for pairs."""

    logits: Float[Tensor, "examples classes"]
    weights: Float[Tensor, "rows length"]


class SequenceClassifier(nn.Module):
    """W Σ_j α_j h_j + b, with weights α of the positions by ``pooling``.

    Attention pooling is additive attention with one learned query (Yang et al. 2016, §2.2).

    Args:
        encoder: reads tokens or frames.
        classes: the number of outputs.
        pooling: α: 1 at one position (``first``, ``last``), equal for all valid ones (``mean``), or softmax(v·tanh(U
            h_j)) (``attention``).
        dropout: dropout probability of the pooled vector.
        separate: an example is two consecutive rows, each encoded separately, to u and v. Its logits are W max(0, W_c
            [u; v; |u − v|; u ∘ v] + b_c) + b (Conneau et al. 2017, §3.1).
        window: a row with more positions is encoded in consecutive windows of this size. The sum is over the positions
            of all its windows, with weights as for one sequence; a pooling of one position has no meaning there. None:
            no limit.
    """

    def __init__(
        self, encoder: Encoder, classes: int, *, pooling: str, dropout: float, separate: bool = False,
        window: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.encoder, self.pooling, self.dropout, self.window = encoder, pooling, Dropout(dropout), window
        self.compare = nn.Linear(4 * encoder.width, encoder.width) if separate else None
        self.output = nn.Linear(encoder.width, classes)
        if pooling == "attention":
            self.key, self.query = nn.Linear(encoder.width, encoder.width), nn.Linear(encoder.width, 1, bias=False)

    def forward(self, inputs: Shaped[Tensor, "rows length *features"], span: Span) -> Classified:
        # A trace has no branch on lengths: its graph divides every row, also one of a single window.
        if self.window is not None and (torch.compiler.is_exporting() or inputs.shape[1] > self.window):
            pooled, weights = self._pool_windows(inputs, span, Windows(span.valid, self.window))
        else:
            encoded = self.encoder(inputs, span)
            weights = self._weigh(self._energy(encoded.states), encoded.span.valid)
            pooled = torch.einsum("rl,rlw->rw", weights, encoded.states)
        if self.compare is not None:
            one, other = pooled.unflatten(0, (-1, 2)).unbind(1)
            both = torch.cat([one, other, (one - other).abs(), one * other], -1)
            pooled = self.compare(self.dropout(both)).relu()
        return Classified(self.output(self.dropout(pooled)), weights)

    def _pool_windows(
        self, inputs: Shaped[Tensor, "rows length *features"], span: Span, windows: Windows
    ) -> tuple[Float[Tensor, "rows width"], Float[Tensor, "rows length"]]:
        """Return the pooled states of all windows of each row, and the weights of its positions."""
        states = self.encoder(windows.split(inputs), Span.of(windows.split(span.valid))).states
        weights = self._weigh(windows.join(self._energy(states)), span.valid)
        pooled = torch.einsum("sl,slw->sw", windows.split(weights), states)
        return windows.add(pooled), weights

    def _energy(self, states: Float[Tensor, "rows length width"]) -> Float[Tensor, "rows length"]:
        """Return the logarithm of each position's weight up to a constant; 0 unless weights are learned."""
        if self.pooling != "attention":
            return states.new_zeros(states.shape[:2])
        energy: Tensor = self.query(torch.tanh(self.key(states)))[..., 0]
        return energy

    def _weigh(
        self, energy: Float[Tensor, "rows length"], valid: Bool[Tensor, "rows length"]
    ) -> Float[Tensor, "rows length"]:
        """Return the weights of the positions; 0 for padding."""
        if self.pooling == "attention":
            return energy.masked_fill(~valid, -torch.inf).softmax(-1)
        length = valid.sum(1, keepdim=True)
        if self.pooling == "mean":
            return valid.to(energy.dtype) / length
        index = torch.arange(valid.shape[1], device=valid.device)
        return (index == (length - 1 if self.pooling == "last" else 0)).to(energy.dtype).expand(len(valid), -1)


def token_input(config: ClassifierModelConfig, types: int) -> Input:
    """Return the input layer of a classifier of tokens, initialized from torch's default generator."""
    return text_input(types, config.encoder.embedding_width, affixes=config.affixes)


def build_classifier(
    config: ClassifierModelConfig, input: Input, *, classes: int, window: int | None = None
) -> SequenceClassifier:
    """Return a classifier of that config over ``input``, initialized from torch's default generator.

    ``window``: see ``SequenceClassifier``.
    """
    encoder = ARCHITECTURES[config.encoder.kind].encoder(config.encoder, input)
    net = SequenceClassifier(
        encoder, classes, pooling=config.pooling, dropout=config.encoder.dropout, separate=config.pairs == "apart",
        window=window,
    )  # fmt: skip
    if config.starts_at_zero:
        start_at_zero(net.output)
    return net


class TokenTagger(nn.Module):
    """W h_j + b for each position j: the logits of its classes, independent of other positions' classes.

    Args:
        encoder: reads tokens.
        classes: the number of tags.
        dropout: dropout probability of the states h.
    """

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
