"""Chorowski's location-aware attention: it sees where it looked last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import conv1d, pad

from regard.attention.contract import Abilities, Attended, Mechanism
from regard.attention.kernel import blank_unseen, masked_softmax, read, share_heads, weigh
from regard.attention.mask import Bound
from regard.state import State

__all__ = ["LocationAware", "LocationState"]


class LocationState(NamedTuple):
    """The last weights; joined rows are padded with zeros to the most keys."""

    weights: Float[Tensor, "batch heads key"]

    def join(self, states: Sequence[LocationState]) -> LocationState:
        keys = max(state.weights.shape[2] for state in states)
        return LocationState(torch.cat([pad(s.weights, (0, keys - s.weights.shape[2])) for s in states]))


class LocationAware(Mechanism):
    """f_i = F ∗ α_{i−1}, e_ij = wᵀ tanh(W s_i + V h_j + U f_ij + b), α_i = softmax(β e_i)

    (Chorowski et al. 2015, Eq. 8 to 10). F ``filters`` (heads·channels, 1, 2·reach + 1), without bias, so that
    padding, whose weight is 0, stays silent; W ``query_weight`` (heads, width, d_q), V ``key_weight`` (heads, width,
    d_k), U ``location_weight`` (heads, width, channels), b ``bias`` and w ``vector`` (heads, width); β
    ``sharpening``. α_0 is uniform over the valid keys, as ESPnet has it. Queries are taken in turn; a padded query
    leaves the state alone. Cost: query·key·width·(channels + 1) per head, in as many steps as there are queries.
    """

    def __init__(
        self,
        *,
        heads: int,
        query_width: int,
        key_width: int,
        width: int,
        channels: int = 10,
        reach: int = 100,
        sharpening: float = 1.0,
    ) -> None:
        super().__init__()
        self.heads, self.channels, self.reach, self.sharpening = heads, channels, reach, sharpening
        self.query_weight = nn.Parameter(torch.empty(heads, width, query_width))
        self.key_weight = nn.Parameter(torch.empty(heads, width, key_width))
        self.location_weight = nn.Parameter(torch.empty(heads, width, channels))
        self.filters = nn.Parameter(torch.empty(heads * channels, 1, 2 * reach + 1))
        self.vector = nn.Parameter(torch.empty(heads, width))
        self.bias = nn.Parameter(torch.zeros(heads, width))
        for weight in (self.query_weight, self.key_weight, self.location_weight, self.filters, self.vector):
            nn.init.uniform_(weight, -(weight.shape[-1] ** -0.5), weight.shape[-1] ** -0.5)

    def can(self) -> Abilities:
        # Not causal: its state has a weight for every key, so the keys must all be there from the start.
        return Abilities(
            causal=False,
            cross=True,
            stream="exact",
            weights=True,
            independent=False,
            normalised=True,
            fused=False,
        )

    def start(self, key: Float[Tensor, "batch key_heads key key_width"], bound: Bound) -> LocationState:
        valid = bound.key.valid.to(key.dtype)
        uniform = valid / valid.sum(1, keepdim=True).clamp_min(1)
        return LocationState(uniform[:, None].expand(-1, self.heads, -1))

    def forward(
        self,
        query: Float[Tensor, "batch heads query width"],
        key: Float[Tensor, "batch key_heads key key_width"],
        value: Float[Tensor, "batch key_heads key value"],
        bound: Bound,
        state: State = (),
        *,
        need_weights: bool = False,
    ) -> Attended:
        key, value = (share_heads(blank_unseen(x, bound), query.shape[1]) for x in (key, value))
        asked = torch.einsum("bhtd,hnd->bhtn", query, self.query_weight) + self.bias[:, None]
        answered = torch.einsum("bhsd,hnd->bhsn", key, self.key_weight)
        last, seen = state.weights, []
        for i in range(query.shape[2]):
            energy = self._energy(asked[:, :, i : i + 1], answered, last)
            seen.append(weigh(energy, bound.column(i), masked_softmax))
            last = torch.where(bound.query.valid[:, i, None, None], seen[-1].squeeze(2), last)
        weights = torch.cat(seen, 2) if seen else query.new_zeros(*query.shape[:3], key.shape[2])
        return Attended(read(weights, value), weights if need_weights else None, LocationState(last))

    def _energy(
        self,
        asked: Float[Tensor, "batch heads 1 width"],
        answered: Float[Tensor, "batch heads key width"],
        last: Float[Tensor, "batch heads key"],
    ) -> Float[Tensor, "batch heads 1 key"]:
        """The energies of one query, from itself, all keys and the last weights."""
        found = conv1d(last, self.filters, padding=self.reach, groups=self.heads)
        located = torch.einsum("bhcs,hnc->bhsn", found.unflatten(1, (self.heads, -1)), self.location_weight)
        hidden = torch.tanh(asked + answered + located)
        return self.sharpening * torch.einsum("bhsn,hn->bhs", hidden, self.vector)[:, :, None]
