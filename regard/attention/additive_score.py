"""The additive comparison of a query and a key, with room for a third voice: what several mechanisms score by."""

from __future__ import annotations

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.kernel import share_heads

__all__ = ["AdditiveScore", "uniform"]

OWN = ("query", "key", "bias")


def uniform(*shape: int) -> nn.Parameter:
    """A parameter drawn from ±1/√fan-in, the last dimension."""
    return nn.Parameter(torch.empty(shape).uniform_(-(shape[-1] ** -0.5), shape[-1] ** -0.5))


class AdditiveScore(nn.Module):
    """e_ij = β wᵀ tanh(W s_i + V h_j + b + x_ij) of queries s, keys h and a third part x that the caller brings.

    W ``query_weight`` (heads, width, d_q), V ``key_weight`` (heads, width, d_k), b ``bias`` and w ``vector`` (heads,
    width), β ``sharpening``. ``width`` is d_q unless given. ``own`` names which of W, V and b ("query", "key",
    "bias") there are: without W or V that side enters as it is and must be ``width`` wide, as where the heads
    project already.
    """

    def __init__(
        self,
        *,
        heads: int,
        query_width: int,
        key_width: int,
        width: int | None,
        own: Collection[str],
        sharpening: float,
    ) -> None:
        super().__init__()
        if unknown := set(own) - set(OWN):
            raise ValueError(f"own names some of {', '.join(OWN)}, not {', '.join(sorted(map(str, unknown)))}")
        if width is not None and width < 1:
            raise ValueError(f"a comparison is 1 wide or more, not {width}")
        self.width = width or (query_width if "key" in own else key_width)
        for name, given in (("query", query_width), ("key", key_width)):
            if name not in own and given != self.width:
                raise ValueError(f"a {name} of width {given} without own weights cannot meet a width of {self.width}")
        self.sharpening = sharpening
        self.query_weight = uniform(heads, self.width, query_width) if "query" in own else None
        self.key_weight = uniform(heads, self.width, key_width) if "key" in own else None
        self.bias = nn.Parameter(torch.zeros(heads, self.width)) if "bias" in own else None
        self.vector = uniform(heads, self.width)

    def ask(self, query: Float[Tensor, "batch heads query query_width"]) -> Float[Tensor, "batch heads query width"]:
        """W s + b."""
        asked = query if self.query_weight is None else torch.einsum("bhtd,hnd->bhtn", query, self.query_weight)
        return asked if self.bias is None else asked + self.bias[:, None]

    def answer(self, key: Float[Tensor, "batch key_heads key key_width"]) -> Float[Tensor, "batch heads key width"]:
        """V h: what keys are prepared to. Each head has a V, so heads that shared their keys share them no longer."""
        if self.key_weight is None:
            return key
        return torch.einsum("bhsd,hnd->bhsn", share_heads(key, len(self.key_weight)), self.key_weight)

    def pairs(
        self,
        query: Float[Tensor, "batch heads query query_width"],
        answered: Float[Tensor, "batch heads key width"],
    ) -> Float[Tensor, "batch heads query key"]:
        """The energies of all pairs, where nobody else is heard. Memory: batch·heads·query·key·width."""
        return self._judge(self.ask(query)[:, :, :, None] + answered[:, :, None])

    def forward(
        self,
        asked: Float[Tensor, "batch heads 1 width"],
        answered: Float[Tensor, "batch heads key width"],
        third: Float[Tensor, "batch heads #key width"],
    ) -> Float[Tensor, "batch heads 1 key"]:
        """The energies of one query from W s + b, all V h, and x of each key, or one x for all of them."""
        return self._judge((asked + answered + third)[:, :, None])

    def _judge(self, together: Float[Tensor, "batch heads query key width"]) -> Float[Tensor, "batch heads query key"]:
        return self.sharpening * torch.einsum("bhtsn,hn->bhts", torch.tanh(together), self.vector)
