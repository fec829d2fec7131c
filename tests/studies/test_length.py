"""The study of length: words are counted where they belong, and each criterion can fail."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.studies import length, toy_tasks
from regard.studies.study import ignore_report


def verdict(monkeypatch: pytest.MonkeyPatch, vector: list[float], attention: list[float]) -> list[bool]:
    shares = iter([vector, attention])
    monkeypatch.setattr(length, "_shares", lambda *rest: next(shares))
    return [criterion.holds for criterion in length.run(seed=1, minimal=True, report=ignore_report).criteria]


def test_each_criterion_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    falling, flat = [0.8 - 0.1 * n for n in range(8)], [0.99] * 8
    assert verdict(monkeypatch, falling, flat) == [True, True, True]
    assert verdict(monkeypatch, flat, flat) == [False, True, True]
    assert verdict(monkeypatch, falling, falling) == [True, False, True]
    assert verdict(monkeypatch, falling, [0.7] * 8) == [True, True, False]


def test_words_count_where_they_belong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first copy lacks its end, the second slips by one place from its second word on."""
    monkeypatch.setattr(toy_tasks, "translate_greedily", lambda model, sources: [[4, 5], [6, 8, 7]])
    model: Any = None
    assert length._in_place(model, [[4, 5, 6], [6, 7, 8]]) == pytest.approx(3 / 6)


def test_untrained_models_copy_nothing() -> None:
    torch.manual_seed(1)
    found = length.run(seed=1, minimal=True, report=ignore_report)
    assert all(share < 0.2 for row in found.rows for share in row[1:] if not isinstance(share, str))
