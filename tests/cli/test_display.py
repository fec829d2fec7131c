"""What a person sees of a training where there is no terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from regard.training import display as training_progress
from regard.training.display import TrainingDisplay
from regard.training.progress import Outcome, TrainingProgress, Validation


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(training_progress, "time", clock)
    return clock


def shown(run: Path) -> tuple[TrainingDisplay, io.StringIO]:
    text = io.StringIO()
    return TrainingDisplay(run, console=Console(file=text, width=60)), text


def figures(tokens: float = 500.0, **other: float) -> dict[str, float]:
    return {"loss": 2.0, "nll": 1.5, "rate": 0.01, "norm": 3.0, "tokens": tokens, "seconds": 0.5} | other


def test_a_plain_line_now_and_then(clock: Clock, tmp_path: Path) -> None:
    progress, text = shown(tmp_path)
    with progress:
        progress.prepared(10)
        for step in range(1, 41):
            clock.now += training_progress.PLAIN_EVERY / 15
            progress.updated(TrainingProgress(step=step, epoch=1, seconds=2.0 * step), 100, figures())
    lines = text.getvalue().splitlines()
    assert [line.split(" ·")[0] for line in lines] == [
        "step 1 of 100, 3 min left", "step 17 of 100, 3 min left", "step 33 of 100, 2 min left"
    ]  # fmt: skip
    assert lines[0].endswith(" · epoch 2 · loss 2.000 · 1,000 tokens/s")
    assert "\033" not in text.getvalue()


def test_where_the_end_is_not_known_none_is_told(clock: Clock, tmp_path: Path) -> None:
    progress, text = shown(tmp_path)
    progress.updated(TrainingProgress(step=1), None, figures())
    assert text.getvalue() == "step 1 · epoch 1 · loss 2.000 · 1,000 tokens/s\n"


def test_the_speed_is_smoothed(clock: Clock, tmp_path: Path) -> None:
    progress, _ = shown(tmp_path)
    for tokens in (500.0, 1500.0):
        progress.updated(TrainingProgress(step=1), None, figures(tokens))
    assert progress.speed == pytest.approx(0.95 * 1000 + 0.05 * 3000)


def test_what_is_said_stands_in_one_line_as_it_is(tmp_path: Path) -> None:
    """A path or command is copied in one piece, and brackets are no markup."""
    progress, text = shown(tmp_path)
    message = "[bold] pip install '.[tensorboard]' " + "x" * 100
    progress.log(message)
    progress.validated(TrainingProgress(step=1500), Validation(1.25, {"bleu": 30.126}), True)
    progress.validated(TrainingProgress(step=2000), Validation(1.5, {}), False)
    progress.finished(Outcome(TrainingProgress(step=2000), "interrupted"))
    progress.finished(Outcome(TrainingProgress(step=2000), "stopped by a reporter"))
    progress.finished(Outcome(TrainingProgress(step=2000), "failed"))
    progress.finished(Outcome(TrainingProgress(step=2000, seconds=90), "steps"))
    assert text.getvalue().splitlines() == [
        message,
        "step 1,500 · validation loss 1.2500 (best) · bleu 30.13",
        "step 2,000 · validation loss 1.5000",
        f"stopped and saved at step 2,000; to continue: regard train --resume {tmp_path}",
        f"stopped by a reporter and saved at step 2,000; to continue: regard train --resume {tmp_path}",
        "finished (steps): 2,000 updates in 1.5 minutes",
    ]


def test_many_validations_are_a_few_lines_with_the_last(clock: Clock, tmp_path: Path) -> None:
    """A graph in one batch is validated after each update, hundreds of times in a minute."""
    progress, text = shown(tmp_path)
    for step in range(1, 901):
        clock.now += 0.06
        progress.validated(TrainingProgress(step=step), Validation(1.0 / step, {}), step == 450)
    progress.finished(Outcome(TrainingProgress(step=900, best_step=450, seconds=54), "steps"))
    lines = text.getvalue().replace("\n ", " ").splitlines()
    assert len(lines) == training_progress.FIRST_VALIDATIONS + 54 // training_progress.VALIDATIONS_EVERY + 2
    assert lines[0].startswith("step 1 ·") and lines[-2].startswith("step 900 ·")
    assert lines[-1] == "finished (steps): 900 updates in 54.0 seconds; best validation: step 450"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.9312, "0.9312"), (0.93124, "0.9312"), (-0.5, "-0.5000"), (0.0, "0.0000"), (0.0000421, "4.21e-05"),
        (9.99, "9.9900"), (30.126, "30.13"), (999.1, "999.10"), (1077725.3, "1,077,725"), (float("nan"), "nan"),
    ],
)  # fmt: skip
def test_figures_have_digits_that_show_progress(clock: Clock, tmp_path: Path, value: float, text: str) -> None:
    progress, written = shown(tmp_path)
    progress.validated(TrainingProgress(step=1), Validation(value, {"accuracy": value}), False)
    assert written.getvalue() == f"step 1 · validation loss {text} · accuracy {text}\n"


def test_speed_is_in_the_unit_of_the_task(clock: Clock, tmp_path: Path) -> None:
    text = io.StringIO()
    display = TrainingDisplay(tmp_path, console=Console(file=text, width=80))
    display.unit = "nodes"
    display.updated(TrainingProgress(step=1), None, figures())
    assert text.getvalue().endswith("1,000 nodes/s\n")
