"""The study of normalization: what holds of columns at once, and what fails where the norm is another one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.models.transformer.norms import normalization as norm_of
from regard.studies import normalization
from regard.studies.study import ignore_report


def failed(monkeypatch: pytest.MonkeyPatch, make: normalization.Make = norm_of) -> list[int]:
    """Which criteria do not hold, by their place, where training goes as it should."""
    curves = {"layer": [0.05], "rms": [0.05], "batch": [0.05], "none": [1.0]}
    monkeypatch.setattr(normalization, "_losses", lambda kind, *rest: curves[kind])
    torch.manual_seed(1)
    found = normalization.run(seed=1, minimal=True, report=ignore_report, make=make)
    return [place for place, criterion in enumerate(found.criteria) if not criterion.holds]


def test_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failed(monkeypatch) == []


def test_it_fails_by_another_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """RMSNorm leaves the mean, and the variance with it; no norm lets the scale through, too."""
    assert failed(monkeypatch, lambda kind, width: nn.RMSNorm(width, eps=1e-6)) == [0, 1]
    assert failed(monkeypatch, lambda kind, width: nn.Identity()) == [0, 2]


def test_it_fails_where_layer_norm_sees_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    leak = normalization._leak
    monkeypatch.setattr(normalization, "_leak", lambda kind: leak("batch" if kind == "layer" else "layer"))
    assert failed(monkeypatch) == [3, 4]


def test_it_fails_where_layer_norm_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalization, "_updates_until", lambda goal, losses: math.inf)
    assert failed(monkeypatch) == [5]


def test_the_goal_is_reached_at_the_first_look_below_it() -> None:
    assert normalization._updates_until(0.1, [0.5, 0.2, 0.1, 0.3]) == 3 * normalization.EVERY
    assert normalization._updates_until(0.1, [0.5, 0.2]) == math.inf
