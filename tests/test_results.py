"""The results page is what the measurements give, and each row has its command, hardware and date."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from .results_page import AREAS, FOLDER, PAGE, ROOT, Area, load, page, section

CLAIM: dict[str, Any] = {"claim": "BLEU of a test", "figure": "41.59"}
MEASUREMENT: dict[str, Any] = {
    "command": "regard train", "hardware": "AMX", "date": "2026-11-25", "source": "benchmark", "claims": [CLAIM],
}  # fmt: skip
AREA: dict[str, Any] = {"title": "Speed of training", "notes": ["One sentence."], "measurements": [MEASUREMENT]}

_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def measured(**changes: Any) -> dict[str, Any]:
    return {**AREA, "measurements": [{**MEASUREMENT, **changes}]}


def claimed(**changes: Any) -> dict[str, Any]:
    return measured(claims=[{**CLAIM, **changes}])


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run scripts/results"


def test_every_file_is_an_area() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {*AREAS, "structure"}


def test_areas_have_a_table_each() -> None:
    titles = re.findall(r"^## (.+)$", page(), re.MULTILINE)
    assert titles == [load(name).title for name in AREAS] and page().count("\n| Claim |") == len(AREAS)


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the tables of claims."""
    for table in re.findall(r"^\| Claim \|.*\n\|---.*\n((?:\|.*\n)+)", text, re.MULTILINE):
        for line in table.splitlines():
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


@pytest.mark.parametrize("name", AREAS)
def test_every_row_has_a_command_hardware_and_date(name: str) -> None:
    text = section(load(name))
    found = list(rows(text))
    assert found
    for cells in found:
        assert len(cells) == 8 and all(cells)
        label, hardware, date = cells[5:]
        command = re.search(rf"^# {label}\b.*\n(?:#   .*\n)*(?!#)(\S.*)$", text, re.MULTILINE)
        assert command and hardware != "–" and re.match(r"20\d\d-\d\d-\d\d", date), cells


@pytest.mark.parametrize(
    "wrong",
    [
        {**AREA, "page": "x"},
        {**AREA, "notes": ["One.", "Two.", "Three."]},
        {**AREA, "notes": ["One. And another."]},
        {**AREA, "measurements": []},
        measured(commit="abc"),
        measured(command=""),
        measured(command=[]),
        measured(hardware=" "),
        measured(date="yesterday"),
        measured(source="memory"),
        measured(seeds=[]),
        measured(claims=[]),
        claimed(unit="BLEU"),
        claimed(figure=""),
        claimed(figure="1\n2"),
        claimed(goal="≥ 41"),
        claimed(outcome="reached"),
        claimed(goal="≥ 41", outcome="nearly"),
        claimed(recalled=True),
    ],
)
def test_an_invalid_entry_is_rejected(wrong: dict[str, Any]) -> None:
    Area.model_validate(AREA)
    with pytest.raises(ValidationError):
        Area.model_validate(wrong)


def test_an_entry_lacks_no_required_key() -> None:
    for key in ("command", "hardware", "date", "source", "claims"):
        partial = {name: value for name, value in MEASUREMENT.items() if name != key}
        with pytest.raises(ValidationError, match=key):
            Area.model_validate({**AREA, "measurements": [partial]})


def test_marks_of_a_row() -> None:
    marked = claimed(
        error="0.4", baseline="2 | 3", published="41.02", goal="≥ 42", outcome="missed by 0.4",
        seen=True, recalled=True, rough=True,
    )  # fmt: skip
    [cells] = rows(section(Area.model_validate(marked)))
    assert cells == [
        "BLEU of a test † *(rough)*", "41.59 ± 0.4", "2 \\| 3", "41.02 *(recalled)*", "≥ 42: **missed** by 0.4",
        "ST1", "AMX", "2026-11-25",
    ]  # fmt: skip


def test_an_archived_measurement_is_not_on_the_page() -> None:
    archived = {**MEASUREMENT, "archived": True, "claims": [{**CLAIM, "figure": "40.73"}]}
    text = section(Area.model_validate({**AREA, "measurements": [archived, MEASUREMENT]}))
    assert "40.73" not in text and len(list(rows(text))) == 1


@pytest.mark.skipif(not (ROOT / "README.md").is_file(), reason="README.md is not in this distribution")
def test_figures_of_the_readme_are_among_the_results() -> None:
    """A figure with a decimal point is one of a measurement, rounded at most."""
    figures = {figure.replace(",", "") for name in AREAS for figure in _NUMBER.findall(json.dumps(_texts(name)))}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line.split(" | ") for line in readme.splitlines() if line.startswith("| ") and line.count(" | ") == 4]
    cells = [cell for line in lines for cell in line[3:]]
    quoted = {figure for cell in cells for figure in _NUMBER.findall(cell) if "." in figure}
    assert len(quoted) >= 10

    def measured_as(figure: str) -> bool:
        places = len(figure.partition(".")[2])
        return any(len(each.partition(".")[2]) >= places and f"{float(each):.{places}f}" == figure for each in figures)

    assert [figure for figure in sorted(quoted) if not measured_as(figure)] == []


def _texts(name: str) -> list[str]:
    claims = [claim for measurement in load(name).measurements for claim in measurement.claims]
    return [text for claim in claims for text in (claim.figure, claim.baseline, claim.published) if text]
