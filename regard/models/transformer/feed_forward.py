"""Feed-forward network of a Transformer, applied to each position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, silu
from torch.utils.checkpoint import checkpoint

from regard.core.randomness import fork
from regard.core.reference_mode import in_reference_mode
from regard.models.dropout import RECTIFIERS, Dropout
from regard.native.passes import LANES, covers

Activation = Literal["relu", "relu2", "gelu", "gelu-tanh", "swish", "glu", "geglu", "swiglu"]
Elementwise = Callable[[Tensor], Tensor]


def tanh_gelu(x: Tensor) -> Tensor:
    """x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, GPT-2's approximation of x Φ(x) (Hendrycks and Gimpel 2016, §2)."""
    return gelu(x, approximate="tanh")


PLAIN: dict[str, Elementwise] = {
    **RECTIFIERS, "gelu": gelu, "gelu-tanh": tanh_gelu, "swish": silu,
}  # fmt: skip
GATES: dict[str, Elementwise] = {"glu": torch.sigmoid, "geglu": gelu, "swiglu": silu}


class FeedForward(nn.Module):
    """FFN(x) = act(x W_1 + b_1) W_2 + b_2, applied to each position.

    W_1 is ``up``, W_2 ``down``. act is ReLU in Vaswani et al. 2017 (Eq. 2), GELU, x Φ(x), in BERT, and its
    approximation by tanh in GPT-2. It is Swish, x σ(x), in models of OPUS-MT, and max(0, x)² in Primer (So et al.
    2021). ``dropout`` is applied to the inner units, after act: not in the paper, but in its later code
    (tensor2tensor).
    """

    def __init__(self, width: int, inner: int, *, activation: Elementwise = torch.relu, dropout: float = 0.0) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.activation, self.dropout = activation, Dropout(dropout)
        self._rectifier = next((kind for kind, known in RECTIFIERS.items() if known is activation), None)

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        if self._rectifier is None:
            return self.down(self.dropout(self.activation(self.up(x))))
        if self._fuses_bias_gradient(x):
            inner = linear(x, self.up.weight, self.up.bias.detach())
            return self.down(self.dropout(inner, self._rectifier, self.up.bias))
        return self.down(self.dropout(self.up(x), self._rectifier))

    def _fuses_bias_gradient(self, x: Tensor) -> bool:
        """Return whether the gradient of b_1 is summed together with that of the activation, in 32 bits.

        Only in bfloat16, where torch's own sum takes many times as long.
        """
        plain = type(self.up) is nn.Linear and x.dtype is self.up.weight.dtype is torch.bfloat16
        return plain and self.up.out_features % LANES == 0 and covers(x) and not in_reference_mode()


class GatedFeedForward(nn.Module):
    """FFN(x) = (act(x W) ∘ x V) W_2 (Shazeer 2020, Eq. 5 and 6), applied to each position, without biases.

    W is ``gate``, V ``up``, W_2 ``down``. act is σ in GLU, GELU in GEGLU, x σ(x) in SwiGLU. It has three matrices
    instead of two: at 2/3 of the inner width it has as many parameters as ``FeedForward``, which is how the paper
    compares them. ``dropout`` is applied to the inner units.
    """

    def __init__(self, width: int, inner: int, *, activation: Elementwise, dropout: float = 0.0) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.activation, self.dropout = activation, Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        return self.down(self.dropout(self.activation(self.gate(x)) * self.up(x)))


def feed_forward(kind: Activation, width: int, inner: int, *, dropout: float = 0.0) -> FeedForward | GatedFeedForward:
    """Return the feed-forward network of that activation: gated ones have three matrices, the others two."""
    if kind in GATES:
        return GatedFeedForward(width, inner, activation=GATES[kind], dropout=dropout)
    return FeedForward(width, inner, activation=PLAIN[kind], dropout=dropout)


def in_chunks(
    part: Callable[[Tensor], Tensor], x: Float[Tensor, "batch length width"], chunks: int
) -> Float[Tensor, "batch length width"]:
    """Compute part(x) chunk by chunk of positions (Kitaev et al. 2020, Eq. 10), for a position-wise ``part``.

    Only the inner units of one chunk are in memory. For the gradient each chunk is recomputed with the same dropout.
    Without dropout the result equals that of one piece.
    """
    if chunks == 1 or x.shape[1] < 2:
        return part(x)
    if not torch.is_grad_enabled():
        return torch.cat([part(piece) for piece in x.chunk(chunks, 1)], 1)
    return torch.cat([_recomputed(part, piece) for piece in x.chunk(chunks, 1)], 1)


def _recomputed(part: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    draws = fork()
    result: Tensor = checkpoint(
        part, x, use_reentrant=False, preserve_rng_state=False, context_fn=lambda: (draws(), draws())
    )
    return result
