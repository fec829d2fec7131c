"""Joint search: a step whose scores are weighted sums of those of several models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.state import State
from regard.search.contract import Step


class Scorer(NamedTuple):
    """One model of a joint search: its step, and the weight of its log-probabilities."""

    step: Step
    weight: float


class JointStep:
    """score(c | y) = Σ_i w_i log p_i(c | y) (Watanabe et al. 2017, Eq. 16 and 17).

    The state is a tuple of the states of the scorers, so rows are selected, repeated and joined as for one model. Any
    search works with it. With weights 1 − λ and λ of a decoder and of CTC, the score of an output is (1 − λ) log p_att
    + λ log p_ctc. A scorer with weight 0 is not computed.

    Args:
        scorers: the models, whose vocabularies are equal.
    """

    def __init__(self, scorers: Sequence[Scorer]) -> None:
        self.used = tuple(scorer.weight != 0 for scorer in scorers)
        self.scorers = [scorer for scorer in scorers if scorer.weight]
        if not self.scorers:
            raise ValueError("a joint search needs a scorer with a weight above 0")

    def start(self, states: Sequence[State]) -> State:
        """Return the joint state of the states of all scorers, in their order."""
        return tuple(state for state, used in zip(states, self.used, strict=True) if used)

    def __call__(
        self, tokens: Int[Tensor, "rows length"], state: State
    ) -> tuple[Float[Tensor, "rows length types"], State]:
        """Return the scores after each token, and the joint state after the last one."""
        total, states = None, []
        for scorer, own in zip(self.scorers, state, strict=True):
            log_p, after = scorer.step(tokens, own)
            weighted = scorer.weight * log_p.to(torch.float64)
            total = weighted if total is None else total + weighted
            states.append(after)
        assert total is not None
        return total, tuple(states)
