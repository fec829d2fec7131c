"""Location-aware attention that summarizes earlier weights in an LSTM cell."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.additive_score import AdditiveScore, uniform
from regard.attention.kernel import Normalize, normalizer, weigh
from regard.attention.mask import Bound
from regard.attention.previous_weights import Filters, Initial, PreviousWeights, initial_weights, width_warning
from regard.attention.sequential import Sequential


class LocationRecurrentState(NamedTuple):
    """Last weights, and the hidden state and cell of the LSTM of each head."""

    previous: PreviousWeights
    hidden: Float[Tensor, "batch heads width"]
    cell: Float[Tensor, "batch heads width"]


class LocationRecurrent(Sequential):
    """r_i = max_j relu(F ∗ α_{i−1})_j, m_i = LSTM(r_i, m_{i−1}), e_ij = wᵀ tanh(W s_i + V h_j + m_i + b),

    α_i = softmax(β e_i) (ESPnet's AttLocRec; not from a paper). m is the same for every key: it changes the query and
    cannot distinguish two equal keys. F ``filters``; the cell, without bias, has ``input_weight`` (heads, 4·width,
    channels) and ``hidden_weight`` (heads, 4·width, width), gates in torch's order: input, forget, candidate, output;
    it starts at 0. W, V, b and w are in ``content`` (see ``AdditiveScore``).

    Queries are processed one by one; a padded query does not change the state. Cost: query·key·width and the
    convolution per head, and 4·width·(width + channels) per query. Differs from ESPnet in: several heads; the maximum
    is over the valid keys. ESPnet's includes padding, whose filters see the end of the sentence, so a result depends
    on the rest of the batch.

    Args:
        heads: number of heads, each with its own parameters.
        query_width: d_q, features of a query per head.
        key_width: d_k, features of a key per head.
        width: hidden units; None: d_q.
        learned: which of W ("query"), V ("key") and b ("bias") exist.
        channels: filters per head.
        reach: half of a filter's width, which is 2·reach + 1 keys.
        sharpening: β (ESPnet: 2).
        normalize: "softmax", or "sigmoid" for σ(e) / Σ σ(e).
        initial: α_0, "uniform" over the valid keys, all on the "first", or "nowhere", 0.
    """

    def __init__(
        self,
        *,
        heads: int,
        query_width: int,
        key_width: int,
        width: int | None = None,
        learned: Collection[str] = ("query", "key", "bias"),
        channels: int = 10,
        reach: int = 100,
        sharpening: float = 1.0,
        normalize: Normalize = "softmax",
        initial: Initial = "uniform",
    ) -> None:
        super().__init__()
        self.content = AdditiveScore(
            heads=heads, query_width=query_width, key_width=key_width, width=width, learned=learned,
            sharpening=sharpening,
        )  # fmt: skip
        self.filters = Filters(heads=heads, channels=channels, reach=reach)
        self.input_weight = uniform(heads, 4 * self.content.width, channels)
        self.hidden_weight = uniform(heads, 4 * self.content.width, self.content.width)
        self.heads, self.initial_weights, self.normalize = heads, initial_weights(initial), normalizer(normalize)

    def warning(self, longest: int) -> str | None:
        return width_warning(self.filters.reach, longest)

    def start(self, key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound) -> LocationRecurrentState:
        zeros = key.new_zeros(len(key), self.heads, self.content.width)
        return LocationRecurrentState(PreviousWeights(self.initial_weights(key, bound, self.heads)), zeros, zeros)

    def step(
        self,
        query: Float[Tensor, "batch heads 1 width"],
        key: Float[Tensor, "batch heads key width"],
        bound: Bound,
        state: LocationRecurrentState,
    ) -> tuple[Float[Tensor, "batch heads 1 key"], LocationRecurrentState]:
        features = torch.relu(self.filters(state.previous.weights[:, :, None]))
        strongest = features.masked_fill(~bound.key.valid[:, None, None], 0.0).amax(-1)
        gates = torch.einsum("bhc,hgc->bhg", strongest, self.input_weight)
        gates = gates + torch.einsum("bhn,hgn->bhg", state.hidden, self.hidden_weight)
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, -1)
        cell = torch.sigmoid(forget_gate) * state.cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
        hidden = torch.sigmoid(output_gate) * torch.tanh(cell)
        weights = weigh(self.content(query, key, hidden[:, :, None]), bound, self.normalize)
        return weights, LocationRecurrentState(PreviousWeights(weights.squeeze(2)), hidden, cell)
