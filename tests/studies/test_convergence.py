"""The study of convergence: updates and seconds to the goal, and a verdict that can be either."""

from __future__ import annotations

import math

import pytest

from regard.studies import convergence
from regard.studies.convergence import GOAL, OVER, Trained
from regard.studies.study import ignore_report

SMALL = dict(layers=1, width=8, feed_forward=8, heads=1)


def test_the_goal_by_hand() -> None:
    reached = Trained(3e-3, [2.0] * 5 + [GOAL] * OVER, 0.02)
    assert reached.updates == 5 + OVER
    assert reached.seconds == pytest.approx(0.02 * (5 + OVER))
    assert Trained(3e-3, [GOAL] * (OVER - 1), 0.02).updates == math.inf
    assert Trained(3e-3, [GOAL] * OVER + [9.0], 0.02).seconds == math.inf


def test_the_verdict_goes_by_seconds_at_the_best_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Transformer needs twice the updates of either at the second rate, which take a third of the time."""
    updates = iter([40, 30, 35, 50, 99, 60])
    durations = iter([0.03, 0.03, 0.03, 0.03, 0.01, 0.01])

    def trained(model: object, rate: float, *rest: object) -> Trained:
        return Trained(rate, [9.0] * (next(updates) - OVER) + [0.0] * OVER, next(durations))

    monkeypatch.setattr(convergence, "_train", trained)
    found = convergence.run(seed=1, minimal=True, report=ignore_report)
    assert [row[3] for row in found.rows] == [30, 35, 60]
    assert [c.value for c in found.criteria] == pytest.approx([0.6, 0.6])
    assert [c.threshold for c in found.criteria] == pytest.approx([0.9, 1.05])
    assert found.holds


def test_it_fails_where_the_goal_is_not_reached() -> None:
    found = convergence.run(seed=1, minimal=True, report=ignore_report, models={"a": SMALL, "b": SMALL})
    assert [row[3] for row in found.rows] == ["not reached"] * 2
    assert not found.holds
