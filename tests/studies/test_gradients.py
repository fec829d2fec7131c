"""The study of gradients over time: it holds, and each of its laws can fail."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.studies import gradients
from regard.studies.study import ignore_report


def failed(**options: Any) -> list[int]:
    """Which criteria, by their place."""
    found = gradients.run(seed=1, minimal=True, report=ignore_report, **options)
    return [place for place, criterion in enumerate(found.criteria) if not criterion.holds]


def test_it_holds() -> None:
    assert failed() == []


def test_it_fails_where_gates_stay_half_closed() -> None:
    assert failed(bias=0.0) == [3, 5]


def test_it_fails_where_the_matrix_has_no_single_rho() -> None:
    def drawn(rho: float) -> Tensor:
        return rho * torch.randn(gradients.WIDTH, gradients.WIDTH, dtype=torch.float64) / gradients.WIDTH**0.5

    assert 0 in failed(matrix=drawn)


def test_it_fails_where_nothing_explodes_and_where_the_bound_is_broken() -> None:
    assert 2 in failed(matrix=lambda rho: gradients.orthogonal(0.5 * rho))
    assert 1 in failed(matrix=lambda rho: gradients.orthogonal(2.0 * rho))


def test_ratios_by_hand() -> None:
    """h_t = a_t + h_{t−1} / 2: each step back halves the gradient."""
    entered = torch.ones(1, 3, 1, dtype=torch.float64)
    ratios = gradients._ratios(lambda a, carried: (a + carried[0] / 2,), entered, (torch.zeros(1, 1).double(),))
    torch.testing.assert_close(ratios, [1.0, 0.5, 0.25])
