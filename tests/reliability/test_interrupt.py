"""Ctrl-C and SIGTERM at any moment: a checkpoint where there is something to keep, the right exit code, no trace."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.runs import checkpoint

from .conftest import Children, Undisturbed, trace

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}  # each is sent in preparation, and in training
Create = Callable[[Undisturbed], Path]


def steps(run: Path) -> list[int]:
    return checkpoint.list_steps(run / "checkpoints")


@pytest.mark.parametrize(("point", "number"), [("vocabulary", signal.SIGINT), ("corpus", signal.SIGTERM)])
def test_in_preparation_it_acts_at_once(
    children: Children, undisturbed: Callable[..., Undisturbed], new_run: Create, point: str, number: signal.Signals
) -> None:
    run = new_run(undisturbed())
    assert children.train(run, number, point, 1) == CODES[number]
    assert trace(run)[-1] == point, "it went on"
    assert steps(run) == []
    assert "Traceback" not in (run / "log").read_text()
    assert children.finish(run) == undisturbed().kept


@pytest.mark.parametrize(
    ("point", "count", "step", "number"),
    [
        pytest.param("update", 3, 3, signal.SIGINT, id="warm-up"),
        pytest.param("validation", 10, 14, signal.SIGTERM, id="validation"),
        pytest.param("decoding", 5, 14, signal.SIGINT, id="decoding"),
        pytest.param("tensors-written", 2, 6, signal.SIGTERM, id="saving"),
    ],
)
def test_in_training_it_saves_and_leaves(
    children: Children,
    undisturbed: Callable[..., Undisturbed],
    new_run: Create,
    point: str,
    count: int,
    step: int,
    number: signal.Signals,
) -> None:
    """``step``: where the checkpoint stands that it leaves; in a save, the update after it is still made."""
    run = new_run(undisturbed())
    assert children.train(run, number, point, count) == CODES[number]
    found = checkpoint.load(checkpoint.step_path(run / "checkpoints", steps(run)[-1]))
    assert found.step == step
    said = (run / "log").read_text()
    assert f"saved at step {found.step}" in said and f"regard train --resume {run}" in said
    assert children.finish(run) == undisturbed().kept


def test_a_second_signal_acts_at_once_and_loses_nothing(
    children: Children, undisturbed: Callable[..., Undisturbed], new_run: Create
) -> None:
    """The first is sent at update 8; the second comes while the checkpoint that it asked for is written."""
    run = new_run(undisturbed())
    assert children.train(run, signal.SIGINT, "update", 8) == 130
    before = steps(run)
    assert children.train(run, signal.SIGTERM, "update", 1, then="tensors-written") == 143
    assert trace(run)[-1] == "tensors-written"
    assert steps(run) == before
    assert children.finish(run) == undisturbed().kept


def test_interruptions_leave_the_same_last_checkpoints(
    children: Children, undisturbed: Callable[..., Undisturbed], new_run: Create
) -> None:
    """Else an average of the last ten would not be that of the run in one sitting."""
    whole, run = undisturbed(keep=6), new_run(undisturbed(keep=6))
    for count in (8, 3, 11, 1, 4):
        assert children.train(run, signal.SIGTERM, "update", count) == 143
    assert children.finish(run) == whole.kept
    assert len(whole.kept.checkpoints) >= 6
