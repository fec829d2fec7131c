"""Curves of a run, as a page can draw them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.core.task import Metric, find_task
from regard.inspection.run_history import POINTS, describe_run, is_shown, training_curves
from regard.testing import TaskCase


def test_many_points_are_means_of_few_and_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    lines = [{"step": step, "loss": float(step), "rate": 0.1} for step in range(1, 2001)]
    lines += [
        {"step": 500, "validation": {"loss": float("nan")}},
        {"step": 1000, "validation": {"loss": 2.0, "bleu": 1.0}},
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 3, "lo')
    found = {curve["name"]: curve for curve in training_curves(path)}
    assert found["validation loss"]["points"] == [(1000, 2.0)]
    points = found["training loss"]["points"]
    assert len(points) == POINTS and points[0] == (5, 3.0) and points[-1] == (2000, 1998.0)
    json.dumps(training_curves(path), allow_nan=False)
    assert training_curves(tmp_path / "none.jsonl") == []


def test_figures_that_no_network_changes_are_not_drawn() -> None:
    metrics = {"accuracy": Metric(lower_is_better=False)}
    assert not is_shown("season_mse", [(1, 0.3), (2, 0.3)], metrics)
    assert is_shown("ctc", [(1, 0.3), (2, 0.2)], metrics)
    for name in ("accuracy", "loss", "training loss", "training rate"):
        assert is_shown(name, [(1, 0.3), (2, 0.3)], metrics)


@pytest.mark.parametrize(("kind", "unit"), [("classification", "nats"), ("forecasting", "")])
def test_the_unit_of_a_loss_is_that_of_the_task(kind: str, unit: str) -> None:
    case = TaskCase(find_task(kind), kind)  # its files are deleted with it
    curves = describe_run(case.undisturbed[0], name=kind, checkpoint="best")["curves"]
    assert {curve["unit"] for curve in curves if curve["name"].endswith("loss")} == {unit}
    assert all(curve["unit"] == "" for curve in curves if not curve["name"].endswith("loss"))
    assert not any("season" in curve["name"] or curve["name"].endswith("last_mae") for curve in curves)
