"""Observation of one input: attention weights by place with labels of both axes, and probabilities of each step.

A predictor of any task may have ``inspect(input) -> Observation``; the command line, the page and the server show what
it returns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from regard.errors import ModelError

__all__ = ["Alternative", "AttentionWeights", "Axis", "Observation", "ObservedStep", "require_observation"]


class Axis(NamedTuple):
    """Positions along one side of the weights: ``name`` says what they are (token, second, date, node)."""

    name: str
    labels: tuple[str, ...]


class AttentionWeights(NamedTuple):
    """Weights of the heads at one place of a network; a row that may look at nothing is 0."""

    weights: Float[Tensor, "heads query key"]
    query: Axis
    key: Axis


class Alternative(NamedTuple):
    """One possible step, and its log probability in nats."""

    label: str
    log_probability: float


class ObservedStep(NamedTuple):
    """A step of the input or output, its log probability given those before it, and the likeliest, best first."""

    label: str
    log_probability: float
    alternatives: tuple[Alternative, ...] = ()


class Observation(NamedTuple):
    """All that is shown of one input. Labels of steps, one after the other, are ``text`` where there is a text.

    ``attention``: by place, such as ``layers.0.self``; empty for a network without attention. ``following``: the
    likeliest steps after the last, best first.
    """

    text: str
    attention: Mapping[str, AttentionWeights]
    steps: tuple[ObservedStep, ...] = ()
    following: tuple[Alternative, ...] = ()


def require_observation(found: object) -> Observation:
    """Return ``found`` if it is an Observation that agrees with itself; ModelError otherwise."""
    if not isinstance(found, Observation):
        raise _misfit(f"inspect returned {type(found).__name__}, not an Observation")
    for place, (weights, query, key) in found.attention.items():
        wanted = (len(query.labels), len(key.labels))
        if weights.dim() != 3 or weights.shape[1:] != wanted:
            shape = " × ".join(map(str, weights.shape))
            raise _misfit(f"{place} has weights of {shape} for {wanted[0]} × {wanted[1]} labels")
        if not bool(weights.isfinite().all()):
            raise _misfit(f"weights of {place} are not finite")
    values = [step.log_probability for step in found.steps]
    values += [each.log_probability for each in found.following]
    values += [each.log_probability for step in found.steps for each in step.alternatives]
    if any(math.isnan(value) or value == math.inf for value in values):
        raise _misfit("a log probability is no number")
    return found


def _misfit(why: str) -> ModelError:
    return ModelError(
        "this model's observation cannot be shown", why=why, help="weights are (heads, query, key), finite"
    )
