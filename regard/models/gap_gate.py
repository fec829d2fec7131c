"""Product of a masked model's distribution and that of tables, with exponents by what the tables know."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

NEVER = -30.0  # log-probability of the mask


class GapGate(nn.Module):
    """log p(x) = α_b log p_net(x) + β_b log p_tables(x) − log Z, where α starts at 0 and β at 1: the tables alone.

    b are the buckets of the chains of contexts: the longest context before the gap that the tables know, that after it,
    and so on. α_b = α + Σ_chain a[chain, b_chain], and β_b likewise. A logarithmic opinion pool (Genest and Zidek 1986;
    Hinton 2002). ``exponents`` (2,) and ``offsets`` (2 · chains · buckets,) are learned from the loss of the product;
    the network learns from its own loss. Cost: a softmax over the types for each gap.
    """

    def __init__(self, chains: int, buckets: int) -> None:
        super().__init__()
        self.chains, self.buckets = chains, buckets
        self.exponents = nn.Parameter(torch.tensor([0.0, 1.0]))
        self.offsets = nn.Parameter(torch.zeros(2 * chains * buckets))

    def forward(
        self, net: Float[Tensor, "gaps types"], tables: Float[Tensor, "gaps known"], buckets: Int[Tensor, "gaps chains"]
    ) -> Float[Tensor, "gaps types"]:
        """Return log-probabilities of the product, in float32 or wider.

        Args:
            net: log-probabilities of the network, with the mask as the last type.
            tables: log-probabilities of the tables, without the mask.
            buckets: what the tables know of each chain of contexts.
        """
        net = net.float() if net.dtype == torch.bfloat16 else net
        place = buckets + torch.arange(self.chains, device=buckets.device) * self.buckets
        offsets = self.offsets.view(2, -1)[:, place].sum(-1)
        alpha, beta = (self.exponents[:, None] + offsets).to(net.dtype)
        tables = pad(tables.to(net.dtype), (0, net.shape[1] - tables.shape[1]), value=NEVER)
        return torch.log_softmax(alpha[:, None] * net + beta[:, None] * tables, -1)
