"""The study of global and local attention can be refuted."""

from __future__ import annotations

from regard.studies import global_local
from regard.studies.study import ignore_report


def test_without_a_global_column_it_does_not_hold() -> None:
    found = global_local.run(seed=1, minimal=True, report=ignore_report, first=0)
    failed = [criterion.what for criterion in found.criteria if not criterion.holds]
    assert "pairs of positions connected, one global position" in failed
    assert not found.holds


def test_with_one_every_pair_is_connected() -> None:
    assert global_local._connected(1) == 1.0
    assert 0 < global_local._connected(0) < 0.5


def test_marks_and_symbols_are_where_the_answers_say() -> None:
    rows = global_local._draw_rows(5, global_local.torch.Generator().manual_seed(1))
    marked = rows.tokens >= global_local.SYMBOLS
    same = rows.tokens[:, : -global_local.BEFORE] == rows.near[:, global_local.BEFORE :]
    assert (same | marked[:, : -global_local.BEFORE]).all()
    assert (marked.sum(1) == 1).all() and (rows.tokens[marked] - global_local.SYMBOLS == rows.mark).all()
