"""The study of alignment: what counts as aligned, what sharpening does, and a verdict that can fail."""

from __future__ import annotations

import pytest
import torch

from regard.attention.mask import Padding
from regard.attention.mechanisms.additive import Additive
from regard.attention.span import Span
from regard.studies import alignment
from regard.studies.alignment import TIMES, Tried
from regard.studies.study import ignore_report


def verdict(monkeypatch: pytest.MonkeyPatch, *ends: tuple[float, float]) -> list[bool]:
    """Of shares at the trained length and at the longest: content, content sharpened, location, location sharpened."""
    tries = iter([Tried([first, *[0.5] * (len(TIMES) - 2), last], torch.zeros(2, 2)) for first, last in ends])
    monkeypatch.setattr(alignment, "_try", lambda *rest: next(tries))
    return [criterion.holds for criterion in alignment.run(seed=1, minimal=True, report=ignore_report).criteria]


def test_each_criterion_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    good = [(0.9, 0.1), (0.9, 0.2), (1.0, 0.1), (1.0, 0.98)]
    assert verdict(monkeypatch, *good) == [True, True, True]
    assert verdict(monkeypatch, *good[:2], (0.9, 0.1), good[3]) == [False, True, True]
    assert verdict(monkeypatch, *good[:3], (1.0, 0.8)) == [True, False, True]
    assert verdict(monkeypatch, good[0], (0.9, 0.6), *good[2:]) == [True, True, False]


def test_untrained_attention_is_not_aligned() -> None:
    torch.manual_seed(1)
    found = alignment.run(seed=1, minimal=True, report=ignore_report)
    assert not found.criteria[0].holds and not found.criteria[1].holds


def test_sharpening_by_hand() -> None:
    """Twice the energies square the weights, but for their sum."""
    torch.manual_seed(1)
    score = Additive(heads=1, query_width=4, key_width=4)
    query, key = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 5, 4)
    bound = Padding().bind(*(Span.of(torch.ones(1, n, dtype=torch.bool)) for n in (1, 5)))

    def weights() -> torch.Tensor:
        found = score(query, score.prepare(key), key, bound, need_weights=True).weights
        assert found is not None
        return found.detach()

    plain = weights()
    alignment.sharpen(torch.nn.Sequential(score), 2.0)  # type: ignore[arg-type]
    torch.testing.assert_close(weights(), plain**2 / (plain**2).sum())
