"""Curves of a run, as a page can draw them."""

from __future__ import annotations

import json
from pathlib import Path

from regard.inspection.run_history import POINTS, training_curves


def test_many_points_are_means_of_few_and_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    lines = [{"step": step, "loss": float(step), "rate": 0.1} for step in range(1, 2001)]
    lines += [
        {"step": 500, "validation": {"loss": float("nan")}},
        {"step": 1000, "validation": {"loss": 2.0, "bleu": 1.0}},
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 3, "lo')
    found = {curve["name"]: curve for curve in training_curves(path)}
    assert found["validation loss"]["points"] == [(1000, 2.0)] and found["validation loss"]["unit"] == "nats"
    points = found["training loss"]["points"]
    assert len(points) == POINTS and points[0] == (5, 3.0) and points[-1] == (2000, 1998.0)
    json.dumps(training_curves(path), allow_nan=False)
    assert training_curves(tmp_path / "none.jsonl") == []
