"""Attention whose memory of where it looked is an LSTM cell."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.additive_score import AdditiveScore, uniform
from regard.attention.kernel import Normalise, normaliser, weigh
from regard.attention.mask import Bound
from regard.attention.previous_weights import Filters, Initial, WeightsSoFar, first_look, too_wide
from regard.attention.sequential import Sequential

__all__ = ["LocationRecurrent", "LocationRecurrentState"]


class LocationRecurrentState(NamedTuple):
    """The last weights, and the cell's hidden and inner state of each head."""

    looked: WeightsSoFar
    hidden: Float[Tensor, "batch heads width"]
    cell: Float[Tensor, "batch heads width"]


class LocationRecurrent(Sequential):
    """r_i = max_j relu(F ∗ α_{i−1})_j, m_i = LSTM(r_i, m_{i−1}), e_ij = wᵀ tanh(W s_i + V h_j + m_i + b),

    α_i = softmax(β e_i) (ESPnet's AttLocRec; not from a paper). m is the same for every key: it bends the query and
    cannot tell two equal keys apart. F ``filters``, ``channels`` a head, 2·``reach`` + 1 wide; the cell, without
    bias, has ``input_weight`` (heads, 4·width, channels) and ``hidden_weight`` (heads, 4·width, width), gates in
    torch's order: input, forget, candidate, output; it starts at 0. W, V, b and w are in ``content`` (see
    ``AdditiveScore``; ``own`` names those of W, V and b that there are, ``width`` is d_q unless given); β
    ``sharpening`` (ESPnet: 2); ``normalise`` "sigmoid" takes σ(e) / Σ σ(e) for the softmax; α_0 is ``initial``.

    Queries are taken in turn; a padded query leaves the state alone. Cost: query·key·width and the convolution per
    head, and 4·width·(width + channels) a query. Differs from ESPnet in: several heads; the maximum is over the
    valid keys, where ESPnet's runs over padding, too, whose filters see the end of the sentence: a result there
    depends on the batch.
    """

    def __init__(
        self,
        *,
        heads: int,
        query_width: int,
        key_width: int,
        width: int | None = None,
        own: Collection[str] = ("query", "key", "bias"),
        channels: int = 10,
        reach: int = 100,
        sharpening: float = 1.0,
        normalise: Normalise = "softmax",
        initial: Initial = "uniform",
    ) -> None:
        super().__init__()
        self.content = AdditiveScore(
            heads=heads, query_width=query_width, key_width=key_width, width=width, own=own, sharpening=sharpening
        )
        self.filters = Filters(heads=heads, channels=channels, reach=reach)
        self.input_weight = uniform(heads, 4 * self.content.width, channels)
        self.hidden_weight = uniform(heads, 4 * self.content.width, self.content.width)
        self.heads, self.first_look, self.normalise = heads, first_look(initial), normaliser(normalise)

    def remark(self, longest: int) -> str | None:
        return too_wide(self.filters.reach, longest)

    def start(self, key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound) -> LocationRecurrentState:
        nothing = key.new_zeros(len(key), self.heads, self.content.width)
        return LocationRecurrentState(WeightsSoFar(self.first_look(key, bound, self.heads)), nothing, nothing)

    def turn(
        self,
        asked: Float[Tensor, "batch heads 1 width"],
        answered: Float[Tensor, "batch heads key width"],
        bound: Bound,
        state: LocationRecurrentState,
    ) -> tuple[Float[Tensor, "batch heads 1 key"], LocationRecurrentState]:
        found = torch.relu(self.filters(state.looked.weights[:, :, None]))
        strongest = found.masked_fill(~bound.key.valid[:, None, None], 0.0).amax(-1)
        gates = torch.einsum("bhc,hgc->bhg", strongest, self.input_weight)
        gates = gates + torch.einsum("bhn,hgn->bhg", state.hidden, self.hidden_weight)
        let_in, keep, candidate, let_out = gates.chunk(4, -1)
        cell = torch.sigmoid(keep) * state.cell + torch.sigmoid(let_in) * torch.tanh(candidate)
        hidden = torch.sigmoid(let_out) * torch.tanh(cell)
        weights = weigh(self.content(asked, answered, hidden[:, :, None]), bound, self.normalise)
        return weights, LocationRecurrentState(WeightsSoFar(weights.squeeze(2)), hidden, cell)
