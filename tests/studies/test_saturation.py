"""The study of the scale 1/√d_k: it holds, and with the wrong scores it does not."""

from __future__ import annotations

import math

import pytest
import torch

from regard.attention.mechanisms.dot import Dot
from regard.studies import saturation
from regard.studies.study import ignore_report


def failed(**options: Dot) -> list[str]:
    found = saturation.run(seed=1, minimal=True, report=ignore_report, **options)
    return [criterion.what.split(":")[0] for criterion in found.criteria if not criterion.holds]


def test_it_holds() -> None:
    assert failed() == []


def test_it_fails_where_nothing_is_scaled() -> None:
    assert "scaled" in failed(scaled=Dot(scale=1.0))


def test_it_fails_where_the_unscaled_score_is_scaled() -> None:
    assert "unscaled" in failed(unscaled=Dot())


@pytest.mark.parametrize("p, norm", [([1.0, 0.0], 0.0), ([0.5, 0.5], 0.5), ([0.5, 0.25, 0.25], math.sqrt(13 / 64))])
def test_the_jacobian_norm_by_hand(p: list[float], norm: float) -> None:
    p_ = torch.tensor(p, dtype=torch.float64)
    assert float(saturation._jacobian_norm(p_)) == pytest.approx(norm)
    assert float((torch.diag(p_) - torch.outer(p_, p_)).norm()) == pytest.approx(norm)
