"""The study of attention as a dictionary: it holds, and each of its criteria can fail."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.contract import Abilities, Attended, Mechanism
from regard.attention.mask import Bound
from regard.attention.mechanisms.dot import Dot
from regard.core.state import State
from regard.studies import dictionary
from regard.studies.study import Findings, ignore_report


class FirstComeFirst(Mechanism):
    """Prefers what stands first: a list, not a dictionary."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.dot = Dot(scale=1 / temperature)

    def can(self) -> Abilities:
        return self.dot.can()

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, bound: Bound, state: State = (), *, need_weights: bool = False
    ) -> Attended:
        place = torch.arange(key.shape[2], dtype=key.dtype)
        weights = torch.softmax(self.dot.energy(query, key) - 0.01 * place, -1)
        return Attended(weights @ value, weights, state)


def failed(found: Findings) -> set[str]:
    return {criterion.what for criterion in found.criteria if not criterion.holds}


def test_it_holds() -> None:
    assert dictionary.run(seed=1, minimal=True, report=ignore_report).holds


def test_it_fails_where_the_temperature_stays() -> None:
    found = dictionary.run(seed=1, minimal=True, report=ignore_report, lookup=lambda temperature: Dot(scale=1.0))
    assert "distance from the dict's output at the lowest temperature" in failed(found)
    assert "distance from the dict's output / bound, maximum" in failed(found)


def test_it_fails_where_order_matters() -> None:
    found = dictionary.run(seed=1, minimal=True, report=ignore_report, lookup=FirstComeFirst)
    assert "change by another order of the pairs, maximum" in failed(found)
