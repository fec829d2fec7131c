"""The study of oversmoothing: it holds, and with something else in the convolution's place it does not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.studies import oversmoothing
from regard.studies.study import ignore_report


def failed(**options: Any) -> list[str]:
    torch.manual_seed(1)
    found = oversmoothing.run(seed=1, minimal=True, report=ignore_report, **options)
    return [criterion.what for criterion in found.criteria if not criterion.holds]


def test_it_holds() -> None:
    assert failed() == []


def test_it_fails_where_the_plain_network_has_skips() -> None:
    assert "24 plain layers: accuracy" in failed(plain_skip=True)


def test_it_fails_where_nodes_keep_their_own() -> None:
    assert "|rate of shrinking / |λ₂| − 1|" in failed(self_weight=0.5)


def test_a_ring_shrinks_as_its_eigenvalue_says() -> None:
    """A ring of 5 with loops is (1 + 2 cos(2πj/5)) / 3: the second largest by magnitude is (1 + 2 cos 72°) / 3."""
    torch.manual_seed(1)
    ring = torch.arange(5)
    pairs = torch.cat([torch.stack([ring, (ring + step) % 5]) for step in (0, 1, 4)], 1)
    pairs = pairs[:, (pairs[0] * 5 + pairs[1]).argsort()]
    graph = oversmoothing.Groups(pairs, torch.full((15,), 1 / 3), torch.randn(5, 2), ring)
    _, second = oversmoothing._smoothed(graph, 0.0)
    assert second == pytest.approx((1 + 2 * 0.30901699) / 3, rel=1e-6)
