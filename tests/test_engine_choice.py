"""An engine is chosen by trial: the fastest that is exact, by the clock it is given; and is remembered."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import ConfigError
from regard.inference import engine_choice
from regard.inference.decoding import Engine, possible
from regard.inference.engine_choice import (
    AGREEMENT,
    DIFFERENCE,
    GAIN,
    EngineFigures,
    Predictions,
    choose,
    explain,
    measure,
)
from regard.tasks import automatic_engine
from regard.tasks.automatic_engine import MAX_CHOICES, NAME, load_choice, save_choice

EXACT = (0.0, 1.0)


class Clock:
    """Stands still but for what trials take."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Fake:
    """An engine that takes these seconds, one after the other, and is so far from others in so many of 200 places."""

    def __init__(self, clock: Clock, *seconds: float, off: float = 0.0, wrong: int = 0) -> None:
        self.clock, self.seconds, self.off, self.wrong = clock, list(seconds), off, wrong
        self.runs = 0

    def predictions(self) -> Predictions:
        return Predictions(torch.full((200,), self.off - 1.0), (torch.arange(200) < self.wrong).long())

    def run(self) -> None:
        self.clock.now += self.seconds[min(self.runs, len(self.seconds) - 1)]
        self.runs += 1


def test_each_is_timed_in_turn_and_its_median_counts() -> None:
    clock = Clock()
    plain = Fake(clock, 9.0, 0.2, 0.2, 0.8, 0.3, 0.2)  # the first of each only prepares
    other = Fake(clock, 9.0, 0.1, 0.1, 0.0, 0.1, 0.7)
    found = measure({"float32": plain, "int8": other}, clock)
    assert found["float32"].seconds == pytest.approx(0.2) and found["int8"].seconds == pytest.approx(0.1)
    assert plain.runs == other.runs == engine_choice.ROUNDS + 1


def test_slow_ones_are_timed_but_once() -> None:
    clock = Clock()
    plain, other = Fake(clock, 7.0), Fake(clock, 5.0)
    found = measure({"float32": plain, "int8": other}, clock)
    assert (plain.runs, other.runs) == (2, 2) and found["int8"].seconds == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("off", "wrong", "chosen"),
    [
        (0.0, 0, "int8"),
        (0.9 * DIFFERENCE, 0, "int8"),
        (-1.1 * DIFFERENCE, 0, "float32"),
        (1.1 * DIFFERENCE, 0, "float32"),
        (0.0, round(200 * (1 - AGREEMENT)), "int8"),
        (0.0, round(200 * (1 - AGREEMENT)) + 1, "float32"),
        (math.nan, 0, "float32"),
        (math.inf, 0, "float32"),
    ],
)
def test_only_what_is_exact_enough_is_taken(off: float, wrong: int, chosen: Engine) -> None:
    clock = Clock()
    found = measure({"float32": Fake(clock, 1.0), "int8": Fake(clock, 0.1, off=off, wrong=wrong)}, clock)
    assert choose(found) == chosen
    assert ("int8 is not exact enough" in explain(found)) is (chosen == "float32")
    assert explain(found).startswith(f"engine {chosen}: float32 1e+03 ms, int8 100 ms") and "\n" not in explain(found)


def timed(**seconds: float) -> dict[Any, EngineFigures]:
    return {name: EngineFigures(each, *EXACT) for name, each in seconds.items()}


def test_the_fastest_of_several_is_taken_and_float32_where_nothing_is_gained() -> None:
    assert choose(timed(float32=1.0, torch=0.6, int8=0.5)) == "int8"
    assert choose(timed(float32=1.0, torch=0.4, int8=0.5)) == "torch"
    assert choose(timed(float32=1.0, int8=GAIN + 0.01)) == "float32"
    assert choose(timed(float32=1.0, int8=GAIN - 0.01)) == "int8"
    assert choose({"float32": EngineFigures(1.0, 1e9, 0.0)}) == "float32"  # its own numbers are none


FIGURES: dict[Engine, EngineFigures] = {
    "float32": EngineFigures(0.5, *EXACT),
    "int8": EngineFigures(0.25, 0.001, 0.999),
}


def test_what_was_measured_is_remembered_for_its_conditions(tmp_path: Path) -> None:
    assert load_choice(tmp_path, "a") is None
    save_choice(tmp_path, "a", FIGURES)
    assert load_choice(tmp_path, "a") == FIGURES and load_choice(tmp_path, "b") is None
    save_choice(tmp_path, "b", {"float32": EngineFigures(1.0, *EXACT)})
    assert load_choice(tmp_path, "a") == FIGURES
    save_choice(tmp_path, "a", {"float32": EngineFigures(2.0, *EXACT)})
    assert load_choice(tmp_path, "a") == {"float32": EngineFigures(2.0, *EXACT)}
    for number in range(MAX_CHOICES):
        save_choice(tmp_path, f"other {number}", FIGURES)
    assert load_choice(tmp_path, "a") is None and load_choice(tmp_path, "other 0") == FIGURES
    assert len(json.loads((tmp_path / NAME).read_text())["choices"]) == MAX_CHOICES


def damaged(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        found = json.loads(path.read_text())
        change(found["choices"][0]["engines"])
        path.write_text(json.dumps(found))

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        damaged(lambda engines: engines.update(surprise=engines["int8"])),  # a name that is none
        damaged(lambda engines: engines.update(int8="quick")),
        damaged(lambda engines: engines["int8"].update(seconds=-1.0)),
        damaged(lambda engines: engines["int8"].update(seconds=math.nan)),
        damaged(lambda engines: engines["int8"].update(agreement=2.0)),
        damaged(lambda engines: engines["int8"].update(more=1)),
        damaged(lambda engines: engines.pop("float32")),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_bytes(b"\xff"),
        lambda path: path.write_text(""),
        lambda path: path.unlink(),
    ],
)
def test_a_file_of_somebody_else_counts_only_where_it_is_what_ours_are(tmp_path: Path, damage: Any) -> None:
    save_choice(tmp_path, "a", FIGURES)
    damage(tmp_path / NAME)
    assert load_choice(tmp_path, "a") is None
    save_choice(tmp_path, "a", FIGURES)
    assert load_choice(tmp_path, "a") == FIGURES


def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "no"
    with automatic_engine.exclusive(missing):
        save_choice(missing, "a", FIGURES)
    assert load_choice(missing, "a") is None and not missing.exists()


def test_who_measures_does_so_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automatic_engine, "PATIENCE", 0.0)
    with automatic_engine.exclusive(tmp_path), automatic_engine.exclusive(tmp_path):
        pass  # whoever waited too long goes on


def test_an_engine_is_one_of_the_list() -> None:
    with pytest.raises(ConfigError, match="unknown engine") as caught:
        possible("quick", None, None)  # type: ignore[arg-type]
    assert "float32" in str(caught.value.help)
    with pytest.raises(ConfigError, match="requires a run folder"):
        possible("auto", None, None)
