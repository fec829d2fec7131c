"""Location attention (Luong): energies of positions from the query alone, independent of the keys."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention.score import SoftmaxScore


class Location(SoftmaxScore):
    """α_i = softmax(W_a q_i): one energy per position, for any key (Luong et al. 2015, Eq. 8, arXiv version).

    W_a ``weight`` (heads, longest, d_q). A shorter sentence uses only the first rows of W_a. Keys from position
    ``longest`` on get no weight: the paper ignores "words near the end" of longer sentences, and training never reaches
    further rows. Column j of the keys is position j. No bias, no state. Cost: query·min(keys, longest)·d_q per head:
    cheaper than a product with the keys only if these are wider.

    Args:
        heads: number of heads, each with its own parameters.
        query_width: d_q, features of a query per head.
        longest: the number of rows of W_a: keys from this position on get no weight.
    """

    may_see_nothing = True
    by_key_index = True

    def __init__(self, *, heads: int, query_width: int, longest: int = 64) -> None:
        super().__init__()
        if longest < 1:
            raise ValueError(f"longest (number of positions with a score) must be at least 1, got {longest}")
        self.weight = nn.Parameter(torch.empty(heads, longest, query_width))
        nn.init.uniform_(self.weight, -0.1, 0.1)  # as the paper initializes every parameter

    def warning(self, longest: int) -> str | None:
        known = self.weight.shape[1]
        if longest <= known:
            return None
        return (
            f"location attention covers {known} positions (longest) and ignores later ones: "
            f"sources have up to {longest} tokens"
        )

    def energy(
        self, query: Float[Tensor, "batch heads query width"], key: Float[Tensor, "batch heads key key_width"]
    ) -> Float[Tensor, "batch heads query key"]:
        keys = key.shape[2]
        known = torch.einsum("bhtd,hsd->bhts", query, self.weight[:, :keys])
        return pad(known, (0, keys - known.shape[3]), value=float("-inf"))
