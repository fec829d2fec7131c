"""``regard inspect RUN FILE``: the contents of a file are the input of a model that reads files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard import cli

TABLE = "date,load,heat\n" + "".join(f"2020-01-01 {hour:02d}:00:00,{hour % 4},{3 - hour % 4}\n" for hour in range(12))


@pytest.fixture
def run(runs: dict[str, Path]) -> Path:
    """A forecaster, whose inputs are tables."""
    return runs["forecasting"]


def test_a_table_is_inspected_as_its_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "last.csv"
    file.write_text(TABLE)
    documents = []
    for text in (str(file), json.dumps({"table": TABLE})):
        assert cli.run(["inspect", str(run), text, "--json"]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    assert documents[0] == documents[1]
    assert documents[0]["text"] == "a table of 12 rows"
    assert [surface["kind"] for surface in documents[0]["surfaces"]] == ["series", "series"]


def test_a_page_describes_the_table_and_does_not_contain_it(run: Path, tmp_path: Path) -> None:
    file, page = tmp_path / "last.csv", tmp_path / "page.html"
    file.write_text(TABLE.replace("00:00:00,0,", "00:00:00,0.43210,"))
    assert cli.run(["inspect", str(run), str(file), "--html", str(page)]) == 0
    text = page.read_text()
    assert '"text": "a table of 12 rows"' in text and "0.43210" not in text


def test_the_picture_and_the_terminal_draw_the_series(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    file, picture = tmp_path / "last.csv", tmp_path / "a.svg"
    file.write_text(TABLE)
    assert cli.run(["inspect", str(run), str(file), "--svg", str(picture), "--show", "input", "--terminal"]) == 0
    assert "heat" in picture.read_text()
    assert "│" in capsys.readouterr().out


def test_a_file_that_cannot_be_read_is_named(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "empty.csv"
    file.write_text("")
    assert cli.run(["inspect", str(run), str(file), "--json"]) != 0
    assert "empty.csv" in capsys.readouterr().err
