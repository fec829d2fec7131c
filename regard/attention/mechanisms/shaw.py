"""Shaw's relative positions: a learned vector for each distance, added to keys and values."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.contract import Abilities, Attended, Mechanism
from regard.attention.kernel import read, share_heads, weigh, zero_masked
from regard.attention.mask import Bound
from regard.attention.positions.distance_bias import distances
from regard.core.state import State


class Shaw(Mechanism):
    """e_ij = q_i·(k_j + a^K_ij) / √d_k, α = softmax(e), c_i = Σ_j α_ij (v_j + a^V_ij)

    (Shaw et al. 2018, Eq. 3 and 4), a_ij = w_{clip(j−i)}, clip(x) = max(−k, min(k, x)), k = ``clip``.
    ``keys`` w^K (heads, 2·clip + 1, d_k) and ``values`` w^V (heads, 2·clip + 1, d_v) are learned. Each head has
    separate vectors, as in the paper's base model.
    Positions are absolute, so a cache gives the same result. No state. Differs from the paper's big model in: the heads
    of a layer share no table.

    Computed as two terms (Eq. 5): q·w for each of the 2·clip + 1 vectors, from which every pair gathers its own; and
    weights summed by distance, times w^V. Cost: query·key·(d_k + d_v) + query·(2·clip + 1)·(d_k + d_v) per head;
    no query·key·d tensor exists.

    Args:
        heads: number of heads.
        query_width: d_k, features of a query and of a key per head.
        value_width: d_v, features of a value per head; None: d_k.
        clip: distances beyond ± clip share a vector.
        values: whether a^V exists; the paper found no loss of quality without it (Table 3).
        scale: factor of the energy; None: 1/√d_k.
    """

    def __init__(
        self,
        *,
        heads: int,
        query_width: int,
        value_width: int | None = None,
        clip: int = 16,
        values: bool = True,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        if clip < 0:
            raise ValueError(f"clip must be 0 or more, got {clip}")
        self.clip, self.scale = clip, scale
        self.keys = nn.Parameter(torch.empty(heads, 2 * clip + 1, query_width))
        self.values = nn.Parameter(torch.empty(heads, 2 * clip + 1, value_width or query_width)) if values else None
        for table in self.parameters():
            limit = math.sqrt(6 / (table.shape[1] + table.shape[2]))  # Glorot initialization of each head's matrix
            nn.init.uniform_(table, -limit, limit)

    def can(self) -> Abilities:
        return Abilities(
            causal=True,
            cross=True,
            stream="exact",
            weights=True,
            order_free=False,
            normalized=True,
            fused=False,
            same_width=True,
            values_only=self.values is None,
        )

    def forward(
        self,
        query: Float[Tensor, "batch heads query width"],
        key: Float[Tensor, "batch key_heads key width"],
        value: Float[Tensor, "batch key_heads key value"],
        bound: Bound,
        state: State = (),
        *,
        need_weights: bool = False,
    ) -> Attended:
        key, value = (share_heads(zero_masked(x, bound), query.shape[1]) for x in (key, value))
        row = (distances(bound).clamp(-self.clip, self.clip) + self.clip)[:, None]
        row = row.expand(*query.shape[:2], -1, -1)  # (batch, heads, query, key): index of the vector of a pair
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        energy = torch.einsum("bhtd,bhsd->bhts", query, key) + self._energy(query, row)
        weights = weigh(scale * energy, bound)
        used = weights if self.dropping is None else self.dropping(weights)
        context = read(used, value)
        if self.values is not None:
            context = context + self._context(used, row, self.values)
        return Attended(context, weights if need_weights else None, state)

    def _energy(
        self, query: Float[Tensor, "batch heads query width"], row: Int[Tensor, "batch heads query key"]
    ) -> Float[Tensor, "batch heads query key"]:
        """Return q_i·a^K_ij."""
        return torch.einsum("bhtd,hrd->bhtr", query, self.keys).gather(3, row)

    def _context(
        self,
        weights: Float[Tensor, "batch heads query key"],
        row: Int[Tensor, "batch heads query key"],
        table: Float[Tensor, "heads distances value"],
    ) -> Float[Tensor, "batch heads query value"]:
        """Return Σ_j α_ij a^V_ij."""
        total = weights.new_zeros(*weights.shape[:3], table.shape[1]).scatter_add(3, row, weights)
        return torch.einsum("bhtr,hrv->bhtv", total, table)
