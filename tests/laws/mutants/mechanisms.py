"""Mechanisms that are wrong on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.contract import Abilities, Attended, Mechanism
from regard.attention.kernel import attend, masked_softmax, read, share_heads, weigh
from regard.attention.mask import Bound
from regard.attention.mechanisms.cosine import Cosine
from regard.attention.mechanisms.dot import Dot
from regard.attention.mechanisms.forward import FLOOR, Forward
from regard.attention.mechanisms.general import General
from regard.attention.mechanisms.hard import Hard
from regard.attention.mechanisms.local_monotonic import LocalMonotonic
from regard.attention.mechanisms.local_predictive import LocalPredictive
from regard.attention.mechanisms.location_aware import LocationAware
from regard.attention.mechanisms.location_recurrent import LocationRecurrent
from regard.attention.mechanisms.shaw import Shaw
from regard.attention.positions.distance_bias import Alibi
from regard.attention.previous_weights import PreviousWeights
from regard.core.state import State

from ..cases import SIZES, bold


class KeepsWeights(Dot):
    """Forgets dropout of weights."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        context, weights = attend(query, key, value, bound, scale=self.scale, need_weights=need_weights)
        return Attended(context, weights, state)


class ShowsDropped(Dot):
    """Drops weights before they are shown."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        context, weights = attend(query, key, value, bound, dropping=self.dropping, need_weights=True)
        return Attended(context, weights if self.dropping is None else self.dropping(weights), state)


class LeakyCausal(Dot):
    """Sees one key too many."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        allowed = bound.dense() | (bound.dense().roll(1, 2) & bound.key.valid[:, None])
        weights = masked_softmax(self.energy(query, share_heads(key, query.shape[1])), allowed[:, None])
        return Attended(read(weights, share_heads(value, query.shape[1])), weights, state)


class TopLeftCausal(Dot):
    """Counts causality from the first query it is given, as ``is_causal`` of the fused kernel does."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        corner = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
        allowed = (corner if torch.equal(bound.query.valid, bound.key.valid) else corner | True) & bound.dense()
        late = bound.query.start.amax() > 0
        weights = masked_softmax(self.energy(query, key), ((allowed & corner) if late else allowed)[:, None])
        return Attended(read(weights, value), weights, state)


class Unmasked(Dot):
    """Looks at padding, too."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        weights = torch.softmax(self.energy(query, share_heads(key, query.shape[1])), -1)
        return Attended(read(weights, share_heads(value, query.shape[1])), weights, state)


class NaNWhenEmpty(Dot):
    """The plain softmax over −∞."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        energy = self.energy(query, share_heads(key, query.shape[1]))
        weights = torch.softmax(energy.masked_fill(~bound.sdpa(), -torch.inf), -1)
        return Attended(read(weights, share_heads(value, query.shape[1])), weights, state)


class UniformWhenEmpty(Dot):
    """A large negative number for −∞: a query that may look at nothing looks everywhere."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        energy = self.energy(query, share_heads(key, query.shape[1]))
        weights = torch.softmax(energy.masked_fill(~bound.sdpa(), -1e9), -1)
        return Attended(read(weights, share_heads(value, query.shape[1])), weights, state)


class NoBlanking(Dot):
    """0 · NaN: masked values are multiplied by 0 instead of being left out."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        key, value = (share_heads(x, query.shape[1]) for x in (key, value))
        weights = weigh(self.energy(query, key), bound)
        return Attended(read(weights, value), weights, state)


class OtherWeights(Dot):
    """Reports the weights without their sharpening."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        context, _ = attend(2 * query, key, value, bound)
        return Attended(context, attend(query, key, value, bound, need_weights=True)[1], state)


class TiledHeads(Dot):
    """Key heads go round in turn instead of serving neighbors."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        times = query.shape[1] // key.shape[1]
        context, weights = attend(
            query, key.repeat(1, times, 1, 1), value.repeat(1, times, 1, 1), bound, need_weights=need_weights
        )
        return Attended(context, weights, state)


class FastPathForgetsScale(Dot):
    """Only the path that shows weights has the scale."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        from regard.attention.kernel import _forced

        scale = None if need_weights or _forced.get() == "reference" else 1.0
        return Attended(*attend(query, key, value, bound, scale=scale, need_weights=need_weights), state)


class DetachedKeys(Dot):
    """No gradient reaches the keys."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        return Attended(*attend(query, key.detach(), value, bound, need_weights=need_weights), state)


class HiddenParameter(General):
    """Its matrix is kept where no state dict finds it."""

    def __init__(self) -> None:
        super().__init__(**SIZES)
        self.kept = [torch.randn(4, 4, dtype=torch.float64)]

    def energy(self, query: Tensor, key: Tensor) -> Tensor:
        return super().energy(query, key @ (self.kept[0] * self.weight[0].abs().sum()))

    def __deepcopy__(self, memo):
        copied = HiddenParameter()
        copied.load_state_dict(self.state_dict())
        return copied.to(self.weight.dtype)


class ClaimsIndependence(Dot):
    """Depends on the query's position and denies it."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        far = (bound.key.position[:, None] - bound.query_position[..., None]).abs()
        energy = self.energy(query, share_heads(key, query.shape[1])) - far[:, None]
        weights = weigh(energy, bound)
        return Attended(read(weights, share_heads(value, query.shape[1])), weights, state)


class RenormalisedLocal(LocalPredictive):
    """Normalizes again after the Gaussian."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        _, weights, _ = super().forward(query, key, value, bound, state, need_weights=True)
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-300)
        return Attended(read(weights, share_heads(value, query.shape[1])), weights, state)


class LocalCountsPadding(LocalPredictive):
    """S is the padded length."""

    def predict(self, query: Tensor, bound: Bound) -> Tensor:
        return super().predict(query, bound) / bound.key_length[:, None, None] * bound.key.valid.shape[1]


class UniformOverPadding(LocationAware):
    """Starts uniform over padding, too."""

    def start(self, key: Tensor, bound: Bound) -> PreviousWeights:
        keys = key.shape[2]
        return PreviousWeights(key.new_full((key.shape[0], self.heads, keys), 1 / keys))


class StaleLocation(LocationAware):
    """Always sees the first weights."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        return super().forward(query, key, value, bound, state, need_weights=need_weights)._replace(state=state)


class ShiftedState(NamedTuple):
    """A state that reorders wrongly: it keeps its rows where they are."""

    weights: Tensor

    def select(self, rows: Tensor) -> ShiftedState:
        return ShiftedState(self.weights[torch.arange(len(rows)) % len(self.weights)])

    def repeat(self, times: int) -> ShiftedState:
        return ShiftedState(self.weights.repeat(times, 1, 1))

    def join(self, states) -> ShiftedState:
        keys = max(state.weights.shape[2] for state in states)
        padded = [nn.functional.pad(s.weights, (keys - s.weights.shape[2], 0)) for s in states]
        return ShiftedState(torch.cat(padded))


class WrongReorder(LocationAware):
    """Keeps a ``ShiftedState``."""

    def start(self, key: Tensor, bound: Bound) -> State:
        return ShiftedState(*super().start(key, bound))

    def step(self, query, key, bound, state):
        weights, after = super().step(query, key, bound, PreviousWeights(*state))
        return weights, ShiftedState(*after)


class CountsPaddedQueries(LocationAware):
    """Padded queries move the state on."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        everyone = bound.query._replace(valid=torch.ones_like(bound.query.valid))
        blind = Bound(bound.mask, everyone, bound.key)
        return super().forward(query, key, value, blind, state, need_weights=need_weights)


class FloorsPadding(Forward):
    """Its floor lies under padding, too, as ESPnet's does."""

    def step(self, query, key, bound, state):
        weights = super().step(query, key, bound, state)[0].clamp_min(FLOOR)
        weights = weights / weights.sum(-1, keepdim=True)
        return weights, PreviousWeights(weights.squeeze(2))


class PoolsPadding(LocationRecurrent):
    """Takes its maximum over padding, too, as ESPnet does: filters there see the end of the sentence."""

    def step(self, query, key, bound, state):
        whole = Bound(bound.mask, bound.query, bound.key._replace(valid=torch.ones_like(bound.key.valid)))
        whole._dense = bound.dense()
        return super().step(query, key, whole, state)


class Silent(Mechanism):
    """Says that it has weights and returns none."""

    def can(self) -> Abilities:
        return Dot().can()

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        return Attended(attend(query, key, value, bound)[0], None, state)


class CountsColumns(LocalMonotonic):
    """Takes a query's column for its position."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        first = bound.query._replace(start=torch.zeros_like(bound.query.start))
        return super().forward(query, key, value, Bound(bound.mask, first, bound.key), state, need_weights=need_weights)


class ClaimsToSee(LocalMonotonic):
    """Denies that its window may lie beyond the sentence."""

    def can(self) -> Abilities:
        return replace(super().can(), may_see_nothing=False)


class ClaimsSmoothness(Hard):
    """Takes its gradient for a derivative."""

    def can(self) -> Abilities:
        return replace(super().can(), differentiable=True)


class DividesByPadding(Cosine):
    """Normalizes keys before it blanks those that nobody may see."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        unit = key / key.norm(dim=-1, keepdim=True)
        return Attended(*attend(query, unit, value, bound, need_weights=need_weights), state)


class ColumnsForPositions(Shaw):
    """Counts distances from the first query it is given."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        first = bound.query._replace(start=torch.zeros_like(bound.query.start))
        moved = Bound(bound.mask, first, bound.key)
        moved._dense = bound.dense()
        return super().forward(query, key, value, moved, state, need_weights=need_weights)


class FusedPathForgetsBias(Dot):
    """Adds its bias where weights are asked for, and only there."""

    def forward(self, query, key, value, bound, state=(), *, need_weights=False):
        bias = self.bias(query, bound) if need_weights else None
        return Attended(*attend(query, key, value, bound, bias=bias, need_weights=need_weights), state)


class ClaimsPlainness(Shaw):
    """Denies that it sums more than values."""

    def can(self) -> Abilities:
        return replace(super().can(), values_only=True)


def _local(kind: type[LocalPredictive]) -> LocalPredictive:
    return bold(kind(General(**SIZES), heads=2, query_width=4, window=2))


def _location(kind: type[LocationAware] | type[Forward] | type[LocationRecurrent]) -> Mechanism:
    return bold(kind(**SIZES, width=3, channels=2, reach=1))


MUTANTS = {
    "keeps-weights": (KeepsWeights, "dropped"),
    "shows-dropped": (ShowsDropped, "dropped"),
    "leaky-causal": (LeakyCausal, "causal"),
    "leaky-mask": (LeakyCausal, "weighted"),
    "top-left-causal": (TopLeftCausal, "chunk"),
    "unmasked": (Unmasked, "batched"),
    "unmasked-weights": (Unmasked, "weighted"),
    "nan-when-empty": (NaNWhenEmpty, "empty"),
    "uniform-when-empty": (UniformWhenEmpty, "empty"),
    "no-blanking": (NoBlanking, "unseen"),
    "other-weights": (OtherWeights, "weighted"),
    "tiled-heads": (TiledHeads, "grouped"),
    "fast-path-forgets-scale": (FastPathForgetsScale, "fused"),
    "detached-keys": (DetachedKeys, "differentiable"),
    "hidden-parameter": (HiddenParameter, "saved"),
    "claims-independence": (ClaimsIndependence, "order_free"),
    "silent": (Silent, "weighted"),
    "columns-for-positions": (lambda: bold(ColumnsForPositions(heads=2, query_width=4, value_width=3)), "chunk"),
    "fused-path-forgets-bias": (lambda: FusedPathForgetsBias(bias=Alibi()), "weighted"),
    "claims-plainness": (lambda: bold(ClaimsPlainness(heads=2, query_width=4, value_width=3)), "weighted"),
    "renormalized-local-p": (lambda: _local(RenormalisedLocal), "normalized"),
    "local-p-counts-padding": (lambda: _local(LocalCountsPadding), "batched"),
    "counts-columns": (lambda: bold(CountsColumns(General(**SIZES), window=1)), "chunk"),
    "claims-to-see": (lambda: bold(ClaimsToSee(General(**SIZES), window=1)), "normalized"),
    "claims-smoothness": (lambda: bold(ClaimsSmoothness(General(**SIZES))), "differentiable"),
    "divides-by-padding": (lambda: DividesByPadding(heads=2), "unseen"),
    "uniform-over-padding": (lambda: _location(UniformOverPadding), "batched"),
    "stale-location": (lambda: _location(StaleLocation), "chunk"),
    "wrong-reorder": (lambda: _location(WrongReorder), "reorder"),
    "wrong-repeat": (lambda: _location(WrongReorder), "repeated"),
    "wrong-join": (lambda: _location(WrongReorder), "joined"),
    "floors-padding": (lambda: _location(FloorsPadding), "batched"),
    "floors-padding-weights": (lambda: _location(FloorsPadding), "weighted"),
    "pools-padding": (lambda: _location(PoolsPadding), "batched"),
    "counts-padded-queries": (lambda: _location(CountsPaddedQueries), "idle"),
}
