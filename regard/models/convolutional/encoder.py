"""Convolutional encoder (Gehring et al. 2017): gated convolutions centered on each position."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn.functional import glu, pad

from regard.attention.contract import Encoded, Encoder, mean_state
from regard.attention.span import Span
from regard.models.convolutional.gated_convolution import HALF, Convolution, gain, residual
from regard.models.dropout import Dropout
from regard.models.input import Input


class CenteredConvolution(nn.Module):
    """(v(W [x_{i−k/2}, …, x_{i+k/2}] + b) + R x_i)·√½, v the gated linear unit (Gehring et al. 2017, §3.2).

    ``kernel`` is odd, so each position has equally many neighbors before and after it. Neighbors outside the sentence
    are zeros, in a padded batch too. R is the identity, or linear if ``in_width`` is not ``width``. Cost: 2 · kernel ·
    in_width · width per position. Differs from the paper's §3.2 in: the factor √½ of its §3.5.
    """

    def __init__(self, in_width: int, width: int, *, kernel: int, dropout: float = 0.0) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(f"kernels of an encoder must be odd, got {kernel}")
        self.reach, self.dropout = kernel // 2, Dropout(dropout)
        self.convolution = Convolution(in_width, 2 * width, kernel=kernel, gain=gain(dropout, gated=True))
        self.residual = residual(in_width, width)

    def forward(
        self, x: Float[Tensor, "sentences length in_width"], valid: Bool[Tensor, "sentences length"]
    ) -> Float[Tensor, "sentences length width"]:
        inside = self.dropout(x).masked_fill(~valid[..., None], 0)
        gated: Tensor = glu(self.convolution(pad(inside, (0, 0, self.reach, self.reach))), -1)
        return (gated + self.residual(x)) * HALF


class ConvolutionalEncoder(Encoder):
    """Layers of gated convolutions over the embedded source, between two linear maps (Gehring et al. 2017, §3.3).

    States are as wide as the embeddings, to add both. L layers of kernel k see 1 + L(k−1) positions. ``final`` is the
    mean of the states.

    ``layers``: each layer's input is as wide as the previous layer's output.
    ``width``: width of embeddings and states.
    ``first_width``, ``last_width``: width of the first layer's input and of the last layer's output.
    ``dropout``: probability on the embeddings, for the initial variance of the first map.
    """

    def __init__(
        self,
        embedding: Input,
        layers: Sequence[CenteredConvolution],
        *,
        width: int,
        first_width: int,
        last_width: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = self.summary = width
        self.embedding, self.layers = embedding, nn.ModuleList(layers)
        self.input_proj, self.output_proj = (
            Convolution(width, first_width, gain=gain(dropout)),
            Convolution(last_width, width),
        )

    def forward(self, inputs: Shaped[Tensor, "sentences length *features"], span: Span) -> Encoded:
        embedded, span, _ = self.embedding(inputs, span)
        span.refuse_limit(self)
        x: Tensor = self.input_proj(embedded)
        for layer in self.layers:
            x = layer(x, span.valid)
        states: Tensor = self.output_proj(x)
        return Encoded(states, embedded, mean_state(states, span), span)
