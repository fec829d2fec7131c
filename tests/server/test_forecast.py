"""``POST /v1/forecast``: tables and rows, bands of several levels, and a message for each wrong request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import regard
from regard.server.batching.served import ServedModel

from .conftest import serving
from .predicting import mean

BACK, AHEAD = 6, 3


def rows(number: int = 40) -> list[dict[str, Any]]:
    values = np.random.default_rng(3).normal(size=(number, 2)).round(3).tolist()
    return [
        {"date": f"2024-01-{1 + n // 24:02d} {n % 24:02d}:00", "load": a, "heat": b} for n, (a, b) in enumerate(values)
    ]


def table(of: list[dict[str, Any]]) -> str:
    return "date,load,heat\n" + "".join(f"{row['date']},{row['load']},{row['heat']}\n" for row in of)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("series")
    (folder / "meter.csv").write_text(table(rows()), encoding="utf-8")
    source = str(folder / "meter.csv")
    parts = {"train": [{"source": source, "period": "train"}], "valid": [{"source": source, "period": "valid"}]}
    tables = {
        "task": "forecasting", "data": {**parts, "horizon": AHEAD, "look_back": BACK, "season": 2},
        "model": {"layers": 1, "width": 8, "heads": 2, "feed_forward": 8, "encoder": {"input": {"patch": 3}}},
        "train": {"steps": 2, "threads": 1, "warmup": 0},
    }  # fmt: skip
    return regard.train(tables, folder / "run")


@pytest.fixture(scope="module")
def url(run: Path) -> Iterator[str]:
    model = regard.load(run, device="cpu")
    series = ServedModel("meter", task="forecasting", serves={"forecast"}, load_predictor=lambda: model)
    numbers, _ = mean()
    with serving([series, numbers]) as (port, _):
        yield f"http://127.0.0.1:{port}/v1/forecast"


def ask(url: str, **fields: Any) -> httpx.Response:
    return httpx.post(url, json=fields, timeout=30)


def test_a_table_and_its_rows_have_the_forecast_of_python(url: str, run: Path) -> None:
    reply = ask(url, table=table(rows()))
    assert reply.status_code == 200, reply.text
    forecast = reply.json()["forecast"]
    model = regard.load(run, device="cpu")
    line = json.dumps({"table": table(rows())})
    assert reply.json() == {
        "forecast": json.loads(model.write(model([model.read(line)])[0], json=True)),
        "model": "meter",
    }
    assert forecast["date"] == ["2024-01-02 16:00", "2024-01-02 17:00", "2024-01-02 18:00"]
    assert ask(url, rows=rows()).json()["forecast"] == forecast
    assert ask(url, rows=rows()[-BACK:], model="meter").json()["forecast"] == forecast  # the look-back is sufficient


def test_missing_values_are_null_or_left_out(url: str) -> None:
    missing = [row | {"heat": None} if number == 37 else row for number, row in enumerate(rows())]
    absent = [{k: v for k, v in row.items() if number != 37 or k != "heat"} for number, row in enumerate(rows())]
    replies = [ask(url, rows=each).json()["forecast"] for each in (missing, absent, rows())]
    assert replies[0] == replies[1] != replies[2]


def test_each_level_has_a_band_and_the_horizon_cuts(url: str) -> None:
    forecast = ask(url, table=table(rows()), horizon=2, levels=[40, 80]).json()["forecast"]
    assert {len(column) for column in forecast.values()} == {2}
    assert {*forecast} == {"date", *(f"{name}{end}" for name in ("load", "heat") for end in
                                     ("", "-lo-40", "-hi-40", "-lo-80", "-hi-80"))}  # fmt: skip
    assert forecast["load-lo-80"][0] < forecast["load-lo-40"][0] < forecast["load-hi-40"][0] < forecast["load-hi-80"][0]


WRONG: dict[str, tuple[dict[str, Any], int, str]] = {
    "no table": ({}, 422, "either `table` or `rows`"),
    "table and rows": ({"table": "a", "rows": [{"a": 1}]}, 422, "either `table` or `rows`"),
    "too few rows": ({"rows": rows(3)}, 400, "has 3 rows before the forecast; the model reads the last 6"),
    "no dates": ({"rows": [{"load": 1, "heat": 2}] * 9}, 400, "no column of dates"),
    "text": ({"rows": [*rows(8), rows(9)[-1] | {"heat": "x"}]}, 400, "not a finite number: x"),
    "dates that fall": ({"rows": rows(9)[::-1]}, 400, "is before the one above it"),
    "one column": (
        {"rows": [{"date": row["date"], "load": row["load"]} for row in rows()]},
        400,
        "1 column of numbers",
    ),
    "a long horizon": ({"rows": rows(), "horizon": AHEAD + 1}, 400, "horizon"),
    "no horizon": ({"rows": rows(), "horizon": 0}, 422, "horizon"),
    "a wide band": ({"rows": rows(), "levels": [95]}, 400, "level"),
    "no level": ({"rows": rows(), "levels": [0]}, 422, "levels"),
    "many levels": ({"rows": rows(), "levels": [50] * 21}, 422, "levels"),
    "another task": ({"rows": rows(), "model": "mean"}, 400, "does not forecast"),
    "an unknown model": ({"rows": rows(), "model": "none"}, 404, "none"),
    "a path": ({"table": "/etc/passwd"}, 400, "no rows"),
    "an unknown field": ({"rows": rows(), "path": "/etc/passwd"}, 422, "path"),
}


@pytest.mark.parametrize(("fields", "status", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_request_is_refused_with_the_reason(
    url: str, fields: dict[str, Any], status: int, message: str
) -> None:
    reply = ask(url, **fields)
    assert (reply.status_code, message in reply.json()["error"]) == (status, True), reply.text


def test_alarms_of_a_table_are_those_of_python(url: str, run: Path) -> None:
    from regard.data.series_input import series_in_text
    from regard.tasks.forecasting.anomalies import alarms_for, score_series

    own = rows(120)
    own[100]["heat"] = 90.0
    model: Any = regard.load(run, device="cpu")
    address = url.replace("forecast", "anomalies")
    result = ask(address, table=table(own), false_alarms="1/50 rows").json()
    series = series_in_text(table(own), "table", model.config.data.columns)
    expected = alarms_for(score_series(model, series), "1/50 rows")
    assert [alarm["row"] for alarm in result["alarms"]] == [alarm.row for alarm in expected.alarms]
    assert any(alarm["row"] == 100 and alarm["target"] == "heat" for alarm in result["alarms"])
    assert result["threshold"] == pytest.approx(expected.threshold) and result["model"] == "meter"
    assert ask(address, rows=own, false_alarms="1/50 rows").json() == result
    lasting = ask(address, table=table(own), false_alarms="1/50 rows", over=3, level=True).json()
    scored = score_series(model, series, over=3, level=True)
    assert lasting["threshold"] == pytest.approx(alarms_for(scored, "1/50 rows").threshold)
    assert lasting["threshold"] != pytest.approx(result["threshold"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"table": "date,load,heat\n", "model": "meter"}, "a header and no rows"),
        ({"table": "date,load,heat\n2024-01-01,1,2\n"}, "has 1 row"),
        ({"rows": [], "table": "x"}, "either `table` or `rows`"),
        ({"false_alarms": "often"}, "cannot parse the budget"),
    ],
)
def test_a_wrong_request_for_alarms_has_a_message(url: str, fields: dict[str, Any], message: str) -> None:
    given = {"table": table(rows(60)), **fields} if "rows" not in fields else fields
    answer = ask(url.replace("forecast", "anomalies"), **given)
    assert answer.status_code in (400, 422) and message in answer.text, answer.text


def test_a_table_is_a_file_and_not_a_text_of_limited_characters(url: str) -> None:
    long = table(rows(500))
    assert len(long) > 9_000 and ask(url, table=long).status_code == 200


def test_alarms_of_too_many_rows_are_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.server.api.anomaly_api.MAX_ROWS", 50)
    answer = ask(url.replace("forecast", "anomalies"), table=table(rows(60)), false_alarms="1/50 rows")
    assert answer.status_code == 413 and "the table has 60 rows; the limit is 50" in answer.text


def test_bands_have_the_width_that_validation_fitted(run: Path) -> None:
    model: Any = regard.load(run, device="cpu")
    answer = model.codec.answer
    values = [json.loads(line)["validation"] for line in (run / "metrics.jsonl").read_text().splitlines()
              if "validation" in line]  # fmt: skip
    assert answer.width in [figures["band_width"] for figures in values]

    def band() -> Any:
        columns = model([[[row["load"], row["heat"]] for row in rows(60)]])[0].columns
        name = next(name for name in columns if "-lo-" in name)
        return np.array(columns[name.replace("-lo-", "-hi-")]) - np.array(columns[name])

    fitted, answer.width = band() / answer.width, 1.0
    assert band() == pytest.approx(fitted, rel=1e-4)
