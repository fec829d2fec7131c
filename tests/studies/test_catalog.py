"""Every study of the catalog keeps the framework's promises."""

from __future__ import annotations

import json
import re
from importlib import import_module
from inspect import getdoc
from pathlib import Path

import pytest

from regard.studies.catalog import STUDIES
from regard.studies.record import record_study

FRAMEWORK = {
    "__init__",
    "catalog",
    "costs",
    "curve_corpora",
    "digit_strings",
    "learning_curves",
    "page",
    "record",
    "save_model",
    "seeds",
    "sentences",
    "study",
    "toy_tasks",
}
FOLDER = Path(str(import_module("regard.studies").__file__)).parent


def test_each_file_is_in_the_catalog() -> None:
    files = {file.stem for file in FOLDER.glob("*.py") if not file.name.startswith("_")} - FRAMEWORK
    assert files == {study.module for study in STUDIES.values()}


@pytest.mark.parametrize("name", STUDIES)
def test_its_docstring_says_claim_measure_and_thresholds(name: str) -> None:
    text = getdoc(import_module(f"regard.studies.{STUDIES[name].module}")) or ""
    assert [part for part in ("Claim: ", "Measured: ", "Thresholds: ") if f"\n\n{part}" not in text] == []


@pytest.mark.parametrize("name", STUDIES)
def test_its_minimal_version_runs_and_is_recorded(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    told: list[float] = []
    record = record_study(STUDIES[name], tmp_path, minimal=True, report=told.append)
    assert told == sorted(told) and told[-1] == pytest.approx(1.0), "it reports the share done, and comes to its end"
    assert json.loads((tmp_path / "result.json").read_text(encoding="utf-8")) == record
    assert 1_000 < (tmp_path / "figure.svg").stat().st_size < 60_000
    assert (tmp_path / "figure.png").stat().st_size > 1_000
    assert len(record["rows"]) >= 2


PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "studies.md"


def test_the_page_of_the_docs_says_what_the_catalog_says() -> None:
    """It is written by a command, which a change of the catalog does not run."""
    text = PAGE.read_text(encoding="utf-8")
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert sections == [name for name in STUDIES if name in sections], (
        "run regard study page --page docs/evidence/studies.md"
    )
    assert [name for name in sections if f"\n> {STUDIES[name].claim}\n" not in text] == []


def test_the_list_gives_the_times_that_the_page_measured() -> None:
    """One source for both: whoever writes the page anew copies its times into the catalog."""
    text = PAGE.read_text(encoding="utf-8")
    took = re.findall(r"^\| \[([\w-]+)\]\(#[\w-]+\) .* \| ([\d,]+) s \|$", text, re.MULTILINE)
    untold = re.findall(r"^\| ([\w-]+) \| .* \| not run \|  \|$", text, re.MULTILINE)
    assert {name: STUDIES[name].seconds for name, _ in took} == {name: int(s.replace(",", "")) for name, s in took}
    assert {*dict(took), *untold} == set(STUDIES)


def test_the_pictures_of_the_docs_are_there_and_small() -> None:
    pictures = re.findall(r"^!\[.*\]\((.+)\)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert pictures
    assert [name for name in pictures if not 1_000 < (PAGE.parent / name).stat().st_size < 60_000] == []
    assert {PAGE.parent / name for name in pictures} == set((PAGE.parent / "studies").iterdir())


def test_every_study_says_why() -> None:
    text = PAGE.with_name("why.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == list(STUDIES)
