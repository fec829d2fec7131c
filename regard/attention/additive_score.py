"""Additive score of a query and a key, with an optional third term: the energies of several mechanisms."""

from __future__ import annotations

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.kernel import share_heads

PARTS = ("query", "key", "bias")


def uniform(*shape: int) -> nn.Parameter:
    """Return a parameter drawn uniformly from ±1/√fan-in, where fan-in is the last dimension."""
    return nn.Parameter(torch.empty(shape).uniform_(-(shape[-1] ** -0.5), shape[-1] ** -0.5))


class AdditiveScore(nn.Module):
    """e_ij = β wᵀ tanh(W s_i + V h_j + b + x_ij) of queries s, keys h and a third term x that the caller computes.

    Parameters: W ``query_weight`` (heads, width, d_q), V ``key_weight`` (heads, width, d_k), b ``bias`` and w
    ``vector`` (heads, width).

    ``heads``: number of heads, each with its own parameters.
    ``query_width``, ``key_width``: d_q and d_k, features of a query and of a key per head.
    ``width``: hidden units; None: d_q if V is learned, else d_k.
    ``learned``: which of W ("query"), V ("key") and b ("bias") exist. Without W or V, that side is added unprojected
    and must be ``width`` wide, as when the heads already project.
    ``sharpening``: β, a constant factor of every energy.
    """

    def __init__(
        self,
        *,
        heads: int,
        query_width: int,
        key_width: int,
        width: int | None,
        learned: Collection[str],
        sharpening: float,
    ) -> None:
        super().__init__()
        if unknown := set(learned) - set(PARTS):
            raise ValueError(f"learned accepts {', '.join(PARTS)}, got {', '.join(sorted(map(str, unknown)))}")
        if width is not None and width < 1:
            raise ValueError(f"an additive score requires width ≥ 1 (hidden units), got {width}")
        self.width = width or (query_width if "key" in learned else key_width)
        for name, side_width in (("query", query_width), ("key", key_width)):
            if name not in learned and side_width != self.width:
                raise ValueError(
                    f"a {name} with {side_width} features and no learned weights cannot be added to {self.width} "
                    f"hidden units: add {name!r} to learned, or set width = {side_width}"
                )
        self.sharpening = sharpening
        self.query_weight = uniform(heads, self.width, query_width) if "query" in learned else None
        self.key_weight = uniform(heads, self.width, key_width) if "key" in learned else None
        self.bias = nn.Parameter(torch.zeros(heads, self.width)) if "bias" in learned else None
        self.vector = uniform(heads, self.width)

    def project_query(
        self, query: Float[Tensor, "batch heads query query_width"]
    ) -> Float[Tensor, "batch heads query width"]:
        """Return W s + b."""
        projected = query if self.query_weight is None else torch.einsum("bhtd,hnd->bhtn", query, self.query_weight)
        return projected if self.bias is None else projected + self.bias[:, None]

    def project_key(
        self, key: Float[Tensor, "batch key_heads key key_width"]
    ) -> Float[Tensor, "batch heads key width"]:
        """Return V h, the prepared keys. Each head has its own V, so keys shared by heads are copied per head."""
        if self.key_weight is None:
            return key
        return torch.einsum("bhsd,hnd->bhsn", share_heads(key, len(self.key_weight)), self.key_weight)

    def energies(
        self,
        query: Float[Tensor, "batch heads query query_width"],
        projected_key: Float[Tensor, "batch heads key width"],
    ) -> Float[Tensor, "batch heads query key"]:
        """Return the energies of all pairs, without a third term. Memory: batch·heads·query·key·width."""
        return self._energy(self.project_query(query)[:, :, :, None] + projected_key[:, :, None])

    def forward(
        self,
        projected_query: Float[Tensor, "batch heads 1 width"],
        projected_key: Float[Tensor, "batch heads key width"],
        third: Float[Tensor, "batch heads #key width"],
    ) -> Float[Tensor, "batch heads 1 key"]:
        """Return the energies of one query from W s + b, all V h, and x of each key, or one x for all keys."""
        return self._energy((projected_query + projected_key + third)[:, :, None])

    def _energy(self, total: Float[Tensor, "batch heads query key width"]) -> Float[Tensor, "batch heads query key"]:
        return self.sharpening * torch.einsum("bhtsn,hn->bhts", torch.tanh(total), self.vector)
