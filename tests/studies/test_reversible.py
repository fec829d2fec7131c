"""The study of reversible layers: it holds, and not of layers that keep what lies between or draw anew."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from regard.studies import reversible
from regard.studies.study import ignore_report


def failed(**options: object) -> set[int]:
    """Which criteria, by their place."""
    found = reversible.run(seed=1, minimal=True, report=ignore_report, **options)
    return {place for place, criterion in enumerate(found.criteria) if not criterion.holds}


def test_it_holds() -> None:
    assert failed() == set()


def test_it_fails_where_all_is_kept() -> None:
    assert failed(execution=reversible._AutogradStreams) >= {0, 1, 3}


def test_it_fails_where_dropout_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.models.reversible.fork", lambda: nullcontext)
    assert failed() >= {2, 3}
