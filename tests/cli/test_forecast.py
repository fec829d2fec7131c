"""``regard forecast`` and the other verbs with tables of series: forecasts, and a message for each mistake."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard as package
from regard.core.task import find_task
from regard.errors import ConfigError, DataError, RegardError
from regard.testing import TaskCase

from ..svg_faults import svg_faults
from .test_page import CHROMIUM, browser  # noqa: F401 - the browser, a fixture

BACK, AHEAD, ROWS = 8, 4, 60
SET = ("--set", "train.steps=3", "--set", f"data.horizon={AHEAD}", "--set", f"data.look_back={BACK}")


def date(row: int) -> str:
    return f"2024-01-{1 + row // 24:02d} {row % 24:02d}:00:00"


def lines(rows: int = ROWS) -> list[str]:
    """Return a table of two series, hourly."""
    values = np.random.default_rng(3).normal(size=(rows, 2)).round(3)
    return ["date,load,heat", *(f"{date(row)},{load},{heat}" for row, (load, heat) in enumerate(values.tolist()))]


def write(path: Path, rows: Sequence[str]) -> Path:
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def train(table: Path, name: str, batch: int = 120, **keys: object) -> Path:
    """Train three updates on a table, as ``regard train`` would."""
    folder = table.parent / name
    source = str(table)
    tables = {
        "task": "forecasting",
        "data": {
            "train": [{"source": source, "period": "train"}], "valid": [{"source": source, "period": "valid"}],
            "horizon": AHEAD, "look_back": BACK, **keys,
        },
        "model": {"layers": 1, "width": 8, "heads": 2, "feed_forward": 8, "encoder": {"input": {"patch": 4}}},
        "train": {"steps": 3, "threads": 1, "warmup": 0, "batch_tokens": batch},
    }  # fmt: skip
    return package.train(tables, folder)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("series") / "meter.csv", lines())


@pytest.fixture(scope="module")
def run(wide: Path) -> Path:
    return train(wide, "run")


def cells(text: str) -> list[list[str]]:
    return [*csv.reader(StringIO(text))]


def test_a_forecast_is_a_csv_of_dates_points_and_bands(regard: Callable, run: Path, wide: Path, tmp_path: Path) -> None:
    head, *rows = cells(regard("forecast", run, wide).stdout)
    assert head == ["date", "load", "load-lo-80", "load-hi-80", "heat", "heat-lo-80", "heat-hi-80"]
    assert [row[0] for row in rows] == [date(row) for row in range(ROWS, ROWS + AHEAD)]
    for row in rows:
        point, low, high = map(float, row[1:4])
        assert low < point < high
    assert regard("forecast", run, wide, "-o", tmp_path / "next.csv").stdout == ""
    assert cells((tmp_path / "next.csv").read_text()) == [head, *rows]


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_a_decoder_writes_the_forecast(regard: Callable, wide: Path, tmp_path: Path, kind: str) -> None:
    decoder = ("--set", f"model.decoder.kind={kind}", "--set", "model.encoder.input.patch=3", "--set", "model.width=8")
    small = ("--set", "model.preset=tiny", "--set", "model.heads=2", "--runs", tmp_path, "--name", kind)
    regard("train", wide, *SET, *decoder, *small)
    assert len(cells(regard("forecast", tmp_path / kind, wide).stdout)) == 1 + AHEAD
    document = json.loads(regard("inspect", tmp_path / kind, wide, "--json").stdout)
    written = [each for each in document["attention"].values() if each["side"] == "decoder"]
    assert written and all(len(each["query"]["labels"]) == 2 for each in written)  # 3 steps, and the last one


def test_a_decoder_and_a_linear_map_exclude_each_other(regard: Callable, wide: Path) -> None:
    refused = regard("train", wide, *SET, "--set", "model.decoder=transformer", "--set", "model.skip=linear").exception
    assert isinstance(refused, ConfigError) and "model.decoder" in str(refused)
    assert "--set model.skip=average" in (refused.help or "")


def test_json_has_a_list_for_each_column(regard: Callable, run: Path, wide: Path) -> None:
    head, *rows = cells(regard("forecast", run, wide).stdout)
    (line,) = regard("forecast", run, wide, "--json").stdout.splitlines()
    columns = json.loads(line)
    assert [*columns] == head and columns["date"] == [row[0] for row in rows]
    assert columns["heat"] == pytest.approx([float(row[4]) for row in rows])


def test_a_date_chooses_the_first_predicted_row(regard: Callable, run: Path, wide: Path, tmp_path: Path) -> None:
    """The forecast from a date depends on the rows before it only."""
    shown = cells(regard("forecast", run, wide, "--from", date(40)).stdout)
    assert shown[1][0] == date(40) and shown[-1][0] == date(40 + AHEAD - 1)
    shorter = write(tmp_path / "meter.csv", lines()[:41])
    assert cells(regard("forecast", run, shorter).stdout) == shown
    other = lines()[:41] + [f"{date(row)},50,60" for row in range(40, ROWS)]
    assert cells(regard("forecast", run, write(shorter, other), "--from", date(40)).stdout) == shown


def test_horizon_and_level_cut_and_widen(regard: Callable, run: Path, wide: Path) -> None:
    whole = cells(regard("forecast", run, wide).stdout)
    assert cells(regard("forecast", run, wide, "--horizon", 2).stdout) == whole[:3]
    narrow = cells(regard("forecast", run, wide, "--level", "40").stdout)
    assert narrow[0][2:4] == ["load-lo-40", "load-hi-40"] and narrow[1][1] == whole[1][1]
    assert float(whole[1][2]) < float(narrow[1][2]) < float(narrow[1][3]) < float(whole[1][3])
    for option, value, message in (("--horizon", 5, "horizon = 5 is too long"), ("--level", "95", "level = 95 is not")):
        refused = regard("forecast", run, wide, option, value).exception
        assert isinstance(refused, ConfigError) and message in str(refused)


def test_a_plot_is_a_picture(regard: Callable, run: Path, wide: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    assert regard("forecast", run, wide, "--plot", tmp_path / "next.svg").exit_code == 0
    picture = (tmp_path / "next.svg").read_text()
    assert picture.count("<svg") == 1 and "load" in picture and "heat" in picture
    refused = regard("forecast", run, wide, "--plot", tmp_path / "next.pdf").exception
    assert isinstance(refused, ConfigError) and ".png or .svg" in str(refused)


def test_a_long_table_has_a_forecast_for_each_id(regard: Callable, tmp_path: Path) -> None:
    rows = [row.split(",") for row in lines()[1:]]
    long = [
        "unique_id,ds,y",
        *(f"{name},{row[0]},{row[place]}" for place, name in ((1, "a"), (2, "b")) for row in rows),
    ]
    own = train(write(tmp_path / "long.csv", long), "long")
    head, *shown = cells(regard("forecast", own, tmp_path / "long.csv").stdout)
    assert head == ["unique_id", "date", "y", "y-lo-80", "y-hi-80"]
    assert [row[0] for row in shown] == ["a"] * AHEAD + ["b"] * AHEAD
    assert len(regard("forecast", own, tmp_path / "long.csv", "--json").stdout.splitlines()) == 2


def test_arrays_have_a_forecast_for_each_series(regard: Callable, tmp_path: Path) -> None:
    np.savez(tmp_path / "video.npz", x=np.random.default_rng(0).normal(size=(3, 40, 4)).astype(np.float32))
    own = train(tmp_path / "video.npz", "video")
    head, *shown = cells(regard("forecast", own, tmp_path / "video.npz").stdout)
    assert head[:3] == ["unique_id", "date", "channel 1"] and len(shown) == 3 * AHEAD
    assert [row[1] for row in shown[:AHEAD]] == ["41", "42", "43", "44"]


def test_the_calendar_is_known_after_the_last_row(regard: Callable, wide: Path) -> None:
    own = train(wide, "calendar", calendar=("hour", "weekday"))
    assert len(cells(regard("forecast", own, wide).stdout)) == AHEAD + 1


HEAD, *GOOD = lines()
TABLES: dict[str, tuple[list[str], str, int | None]] = {
    "no column of dates": (["load,heat", *(row.split(",", 1)[1] for row in GOOD)], "no column of dates", None),
    "dates that fall": ([HEAD, *GOOD[:19], GOOD[20], GOOD[19], *GOOD[21:]], "is before the one above it", 22),
    "a date twice": ([HEAD, *GOOD[:19], GOOD[18], *GOOD[19:]], "repeats", 21),
    "mixed formats": ([HEAD, *GOOD[:9], GOOD[9].replace("2024-01-01 ", "01.01.2024 "), *GOOD[10:]], "one format", 11),
    "a date between two": ([HEAD, *GOOD[:9], GOOD[9].replace(":00:", ":30:"), *GOOD[10:]], "between two rows", 11),
    "many missing rows": ([HEAD, *GOOD[:20], *GOOD[30:]], "10 rows of 60 are missing: the rows are hourly", None),
    "text": ([HEAD, *GOOD[:40], f"{date(40)},1.5,broken", *GOOD[41:]], "heat is not a finite number: broken", 42),
    "infinity": ([HEAD, *GOOD[:40], f"{date(40)},inf,2", *GOOD[41:]], "load is not a finite number: inf", 42),
    "cells": ([HEAD, *GOOD[:40], f"{GOOD[40]},3", *GOOD[41:]], "the row has 4 cells", 42),
    "no number": (["date,name", *(f"{date(row)},abc" for row in range(20))], "no column of numbers", 2),
    "no row": ([HEAD], "a header and no rows", None),
    "few rows": ([HEAD, *GOOD[: BACK - 1]], f"has {BACK - 1} rows before the forecast", None),
    "one column": ([row.rsplit(",", 1)[0] for row in lines()], "1 column of numbers", None),
    "three columns": ([f"{HEAD},wind", *(f"{row},3" for row in GOOD)], "3 columns of numbers", None),
    "swapped columns": (["date,heat,load", *GOOD], "in another order: heat, load", None),
}


@pytest.mark.parametrize(("table", "message", "line"), TABLES.values(), ids=TABLES)
def test_a_wrong_table_is_refused_with_file_and_line(
    regard: Callable, run: Path, tmp_path: Path, table: list[str], message: str, line: int | None
) -> None:
    path = write(tmp_path / "wrong.csv", table)
    refused = regard("forecast", run, path).exception
    assert isinstance(refused, DataError) and message in str(refused), refused
    assert refused.where == (str(path) if line is None else f"{path}:{line}")


@pytest.mark.parametrize("name", ["one column", "three columns", "swapped columns"])
def test_other_columns_are_not_evaluated(regard: Callable, run: Path, tmp_path: Path, name: str) -> None:
    table, message, _ = TABLES[name]
    refused = regard("evaluate", run, write(tmp_path / "wrong.csv", table)).exception
    assert isinstance(refused, DataError) and message in str(refused), refused


@pytest.mark.parametrize(
    ("begin", "message"),
    [("2024-05-01", "is after the table"), (date(3), "has 3 rows before the forecast"), ("yesterday", "such as 2018")],
)
def test_a_wrong_date_is_refused(regard: Callable, run: Path, wide: Path, begin: str, message: str) -> None:
    refused = regard("forecast", run, wide, "--from", begin).exception
    assert isinstance(refused, DataError) and message in str(refused)


def test_known_columns_must_reach_the_horizon(regard: Callable, tmp_path: Path) -> None:
    later = [f"{date(row)},,{row % 3}" for row in range(ROWS, ROWS + AHEAD)]
    table = write(tmp_path / "known.csv", [*lines(), *later])
    own = train(table, "known", known=("heat",))
    assert [row[0] for row in cells(regard("forecast", own, table).stdout)[1:]] == [row.split(",")[0] for row in later]
    refused = regard("forecast", own, write(tmp_path / "short.csv", [*lines(), *later[:-1]])).exception
    assert isinstance(refused, DataError) and "end 1 row before the horizon" in str(refused)
    assert refused.where == str(tmp_path / "short.csv")


def test_a_model_of_another_task_does_not_forecast(regard: Callable, language_model: Path, wide: Path) -> None:
    refused = regard("forecast", language_model, wide).exception
    assert isinstance(refused, ConfigError) and "forecasting" in str(refused)


def test_training_reports_its_choice_gaps_and_series_without_mase(
    regard: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{row.rsplit(',', 1)[0]},7" for row in GOOD]
    path = write(tmp_path / "table.csv", [HEAD, *rows[:20], *rows[22:]])
    report = regard("train", path, *SET).output
    assert (
        f"{path}: 2 series, hourly, 60 rows, 2024-01-01 to 2024-01-03, 2 rows with missing values → task forecasting, "
        "look-back 8, horizon 4"
    ) in report
    assert f"validation from {date(48)}, test from {date(54)}" in report and "patches of 2 time steps" in report
    assert "no MASE for heat of table.csv: no change from season to season" in report


def test_a_table_without_dates_is_refused_with_the_name_of_the_column(regard: Callable, tmp_path: Path) -> None:
    refused = regard("train", write(tmp_path / "numbers.csv", TABLES["no column of dates"][0])).exception
    assert isinstance(refused, RegardError) and "date (and columns of numbers)" in str(refused)


@pytest.mark.parametrize("rows", [10, 20])
def test_a_table_shorter_than_a_window_is_refused_with_its_sizes(
    regard: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "table.csv", lines(rows))
    refused = regard("train", path, "--name", "run", "--set", f"data.look_back={rows}", *SET[:4]).exception
    assert isinstance(refused, DataError) and f"needs {rows} (look-back) + {AHEAD} (horizon)" in str(refused)
    assert refused.where == str(path) and "the train part of table.csv has" in str(refused)


@pytest.mark.parametrize(("back", "batch"), [(8, 60), (8, 500), (16, 130)])
def test_evaluation_reads_every_window_of_the_test_part(
    regard: Callable, tmp_path: Path, back: int, batch: int
) -> None:
    """A part of n rows has n − H + 1 windows, for any look-back and any batch."""
    path = write(tmp_path / "table.csv", lines(70))
    own = train(path, "run", batch, look_back=back, valid_from=45, test_from=58)
    shown = regard("evaluate", own, path).stdout
    assert re.search(r"^9 windows", shown, re.MULTILINE), shown
    assert "nats" not in shown  # the loss of quantiles is in deviations of the data


def test_the_rows_before_the_test_part_are_history_only(regard: Callable, run: Path, tmp_path: Path) -> None:
    """Validation rows before the look-back of the first window do not change an evaluation; test rows do."""

    def figures(rows: list[str]) -> str:
        return str(json.loads(regard("evaluate", run, write(tmp_path / "meter.csv", rows), "--json").stdout)["figures"])

    plain, begin = lines(), 1 + 54  # line of the first test row
    early = [*plain[: begin - BACK - 1], f"{date(begin - BACK - 2)},50,60", *plain[begin - BACK :]]
    late = [*plain[:begin], f"{date(begin - 1)},50,60", *plain[begin + 1 :]]
    assert figures(early) == figures(plain) != figures(late)


def test_a_table_is_checked(regard: Callable, run: Path, wide: Path, tmp_path: Path) -> None:
    assert regard("check", wide).exit_code == 0
    wrong = regard("check", write(tmp_path / "wrong.csv", TABLES["text"][0]))
    assert "heat is not a finite number: broken" in wrong.output + str(wrong.exception)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt install chromium")
def test_no_texts_of_a_plot_touch(regard: Callable, tmp_path: Path, browser: Any) -> None:  # noqa: F811
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    table = write(
        tmp_path / "meter.csv", [row.replace("load,heat", "load of the whole house,heat") for row in lines(200)]
    )
    one = train(table, "run")
    assert regard("forecast", one, table, "--plot", tmp_path / "next.svg").exit_code == 0
    assert (
        regard("anomalies", one, table, "--false-alarms", "1/40 rows", "--plot", tmp_path / "alarms.svg").exit_code == 0
    )
    for name in ("next", "alarms"):
        faults = svg_faults(browser, (tmp_path / f"{name}.svg").read_text())
        assert [fault for fault in faults if fault.startswith("touching")] == []


def test_anomalies_are_printed_measured_and_drawn(regard: Callable, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    table = lines(200)
    table[151] = f"{date(150)},60,0"
    path = write(tmp_path / "meter.csv", table)
    run, events, picture = train(path, "run"), tmp_path / "events.json", tmp_path / "alarms.svg"
    events.write_text(json.dumps({"meter.csv": [[date(148), date(152)], [date(190), date(192)]]}), encoding="utf-8")
    more = ("--windows", events, "--plot", picture)
    shown = regard("anomalies", run, path, "--false-alarms", "1/40 rows", *more).stdout.splitlines()
    # the row of the jump is in the training part, and is not scored
    assert shown[-1].startswith("1 event, 1 day;") and "<svg" in picture.read_text()
    (other := tmp_path / "other").mkdir()
    copied = write(other / "new.csv", table)
    drawn = ("--false-alarms", "1/100 rows", "--plot", picture)
    alarms = [json.loads(line) for line in regard("anomalies", run, copied, "--json", *drawn).stdout.splitlines()]
    assert "within the threshold" in picture.read_text()
    assert (150, "load") in [(alarm["row"], alarm["target"]) for alarm in alarms]
    lasting = regard("anomalies", run, copied, "--over", 5, "--level", *drawn)
    rows = [int(line.split("\t")[1]) for line in lasting.stdout.splitlines()]
    assert any(150 <= row < 155 for row in rows) and "within the threshold" not in picture.read_text()
    refused = regard("anomalies", run, path, "--false-alarms", "often").exception
    assert isinstance(refused, ConfigError) and "cannot parse the budget" in str(refused)


def test_anomalies_of_a_language_model_are_lines(regard: Callable, tmp_path: Path) -> None:
    case = TaskCase(find_task("language-model"), "language-model")  # its folder goes with it
    run = case.undisturbed[0].path
    text = write(tmp_path / "a.txt", ["the cat sat", "", "tttttttt", "the cat sat"])
    (line,) = regard("anomalies", run, text, "--false-alarms", "1/4 rows", "--json").stdout.splitlines()
    record, model = json.loads(line), package.load(run)
    bits = {number: model.score(own).bits_per_byte for number, own in ((1, "the cat sat"), (3, "tttttttt"))}
    assert record["line"] == max(bits, key=bits.__getitem__)
    assert record["bits_per_byte"] == pytest.approx(max(bits.values()))
    for option in (("--over", 3), ("--level",), ("--windows", tmp_path / "e.json"), ("--plot", tmp_path / "a.svg")):
        refused = regard("anomalies", run, text, *option).exception
        assert isinstance(refused, ConfigError) and f"{option[0]} is for series" in str(refused)
    refused = regard("anomalies", run, text).exception  # a week of lines without dates
    assert isinstance(refused, ConfigError) and "lines have no dates" in str(refused)
    unknown = regard(
        "anomalies", run, write(tmp_path / "b.txt", ["the", "\u2603"]), "--false-alarms", "1/2 rows"
    ).exception
    assert isinstance(unknown, DataError) and (unknown.where or "").endswith("b.txt:2")
