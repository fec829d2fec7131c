"""Interpolation of a language model with n-grams, by the count of the context."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

START = -1.0  # of the logits: most of the first mixture is that of the n-grams


class NgramGate(nn.Module):
    """log p(x) = log(λ_b p_net(x) + (1 − λ_b) p_ngrams(x)), λ_b = σ(w_b).

    b is the bucket of the context: the length of the longest context that the n-grams know, and its count (Jelinek and
    Mercer 1980, with a network as one of the models). ``weight`` w (buckets,) is learned from the loss of the mixture;
    the network from its own loss, which its share of the mixture would scale down. Cost: two logarithms per type.
    """

    def __init__(self, buckets: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((buckets,), START))

    def forward(
        self, net: Shaped[Tensor, "*shape"], ngrams: Shaped[Tensor, "*shape"], buckets: Int[Tensor, "*rows"]
    ) -> Float[Tensor, "*shape"]:
        """Return log-probabilities of the mixture, in float32 or wider.

        Args:
            net: log-probabilities of the network, for one type of each row, or with all types as the last dimension.
            ngrams: those of the n-grams.
            buckets: the bucket of each row, of the shape of ``net`` without the types.
        """
        net = net.float() if net.dtype == torch.bfloat16 else net
        weight = self.weight.to(net.dtype)[buckets]
        weight = weight.view(*weight.shape, *[1] * (net.dim() - weight.dim()))
        return torch.logaddexp(logsigmoid(weight) + net, logsigmoid(-weight) + ngrams.to(net.dtype))
