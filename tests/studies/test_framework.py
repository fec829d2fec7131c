"""What surrounds a study: its verdict, its files, the page and the command. No study of the catalog is run here."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
import torch
from typer.testing import CliRunner

from regard import cli
from regard.core import figure
from regard.core.installation import extra_command
from regard.errors import ConfigError, ModelError
from regard.studies import catalog
from regard.studies.page import write_page
from regard.studies.record import read_record, record_study
from regard.studies.study import Criterion, Findings, Report, Study, at_least, at_most, format_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOY = Study(name="toy", claim="A toy | claims.", source="Nobody 1900", seconds=1)


def draw(figure: Figure) -> None:
    figure.subplots().plot([1, 2, 3])


def findings(*criteria: Criterion) -> Findings:
    return Findings(
        columns=("what", "value"), rows=[("a", 0.12345), ("b", math.inf)], criteria=list(criteria), draw=draw
    )


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A study whose only figure is a drawn number, held against 0.5; it alone is in the catalog."""

    def run(*, seed: int, minimal: bool, report: Report) -> Findings:
        report(0.5)
        report(1.0)
        return findings(at_least("drawn", float(torch.rand(())), 0.5 if minimal else 2.0))

    module = ModuleType("regard.studies.toy")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "regard.studies.toy", module)
    monkeypatch.setattr(catalog, "STUDIES", {"toy": TOY})
    monkeypatch.setattr("regard.studies.page.STUDIES", {"toy": TOY})
    return module


def regard(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli.build_app(), ["study", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    "criterion, holds",
    [
        (at_most("x", 1.0, 1.0), True),
        (at_most("x", 1.1, 1.0), False),
        (at_least("x", 1.0, 1.0), True),
        (at_least("x", 0.9, 1.0), False),
        (at_most("x", math.nan, 1.0), False),
        (at_least("x", math.nan, 1.0), False),
    ],
)
def test_a_criterion_holds_by_its_numbers(criterion: Criterion, holds: bool) -> None:
    assert criterion.holds is holds
    assert findings(at_most("sure", 0, 1), criterion).holds is holds


def test_a_study_without_a_criterion_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one criterion"):
        findings()


def test_a_row_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells"):
        Findings(columns=("a", "b"), rows=[("c",)], criteria=[at_most("x", 0, 1)], draw=draw)


@pytest.mark.parametrize(
    "cell, shown",
    [("a", "a"), (12345, "12,345"), (0.0, "0"), (0.123456, "0.1235"), (1e-7, "1.0e-07"), (3e6, "3.0e+06"),
     (math.inf, "inf"), (-2.5, "-2.5")],
)  # fmt: skip
def test_cells_are_shown_shortly(cell: str | int | float, shown: str) -> None:
    assert format_cell(cell) == shown


def test_a_seed_decides_and_nothing_outside_is_disturbed(toy: ModuleType) -> None:
    before = torch.get_rng_state()
    drawn = [TOY.run(seed=seed).criteria[0].value for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert torch.equal(torch.get_rng_state(), before)


def test_the_verdict_is_computed(toy: ModuleType, tmp_path: Path) -> None:
    kept = [record_study(TOY, tmp_path / "toy", minimal=minimal) for minimal in (True, False)]
    assert [record["holds"] for record in kept] == [True, False]
    assert kept[0]["criteria"][0]["threshold"] == 0.5
    assert read_record(tmp_path / "toy" / "result.json") == kept[1]
    assert kept[1]["rows"] == [["a", 0.12345], ["b", "inf"]], "JSON has no infinity"


def test_figures_are_written_and_equal_in_every_byte(toy: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for folder in ("one", "two"):
        record_study(TOY, tmp_path / folder)
    for name, start in (("figure.svg", b"<?xml"), ("figure.png", b"\x89PNG")):
        data = (tmp_path / "one" / name).read_bytes()
        assert data.startswith(start)
        assert data == (tmp_path / "two" / name).read_bytes()


def test_without_matplotlib_all_but_the_figure_is_there(
    toy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "figure.svg").write_text("of an earlier run")
    monkeypatch.setattr(figure, "find_spec", lambda name: None)
    code, out, err = regard("toy", "--out", str(tmp_path))
    assert code == 0 and "toy does not hold" in out
    assert extra_command("plot") in err
    assert [path.name for path in (tmp_path / "toy").iterdir()] == ["result.json"]


def test_the_command_tells_claim_table_and_verdict(
    toy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGARD_QUICK", raising=False)
    code, out, _ = regard("toy", "--out", str(tmp_path))
    assert code == 0, "a claim that does not hold is an outcome, not a failure"
    assert "A toy | claims." in out and "0.1235" in out and "≥" in out and "toy does not hold" in out
    monkeypatch.setenv("REGARD_QUICK", "1")
    _, out, _ = regard("toy", "--out", str(tmp_path))
    assert "toy holds (minimal version" in out
    _, out, _ = regard("toy", "--out", str(tmp_path), "--json", "--seed", "3")
    assert json.loads(out) == read_record(tmp_path / "toy" / "result.json")
    assert json.loads(out)["seed"] == 3


def test_all_makes_a_page(toy: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "docs" / "studies.md"
    code, _, err = regard("all", "--out", str(tmp_path / "runs"), "--page", str(page))
    text = page.read_text(encoding="utf-8")
    assert code == 0 and str(page) in err
    assert "| [toy](#toy) | A toy \\| claims. | does not hold |" in text
    assert "![toy](studies/toy.svg)" in text and "| drawn | " in text and "Nobody 1900" in text
    assert (page.parent / "studies" / "toy.svg").read_bytes() == (tmp_path / "runs/toy/figure.svg").read_bytes()


def test_a_page_says_what_was_not_run(toy: ModuleType, tmp_path: Path) -> None:
    assert write_page(tmp_path / "page.md", tmp_path / "nowhere") == ["toy"]
    assert "not run" in (tmp_path / "page.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text, told", [("{", "not the result"), ('{"format": 99}', "newer version")])
def test_a_damaged_or_newer_result_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(ModelError, match=told):
        read_record(tmp_path / "result.json")


def test_an_unknown_study_is_refused_with_the_names() -> None:
    with pytest.raises(ConfigError, match="dictionary"):
        regard("dictonary")


def test_the_earlier_spelling_of_a_name_finds_the_study() -> None:
    assert catalog.find_study("normalisation") is catalog.STUDIES["normalization"]
    assert "normalisation" not in catalog.STUDIES, "it is neither listed nor run twice"


def test_the_list_names_each_study_and_imports_nothing_heavy() -> None:
    code = """
import sys
from regard.cli import run
assert run(["study", "list"]) == 0
print([name for name in ("torch", "numpy", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    *listed, heavy = done.stdout.splitlines()
    assert heavy == "[]"
    heads = [line.split()[0] for line in listed if line and not line.startswith(" ")]
    assert heads == list(catalog.STUDIES)
    assert all(study.source in done.stdout for study in catalog.STUDIES.values())


def test_all_leaves_out_what_needs_a_text_and_says_so(
    toy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Path | None] = []

    def run(*, seed: int, minimal: bool, report: Report, text: Path | None, folder: Path | None) -> Findings:
        given.append(text)
        return toy.run(seed=seed, minimal=minimal, report=report)  # type: ignore[no-any-return]

    reader = ModuleType("regard.studies.reader")
    reader.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "regard.studies.reader", reader)
    every = {"toy": TOY, "reader": replace(TOY, name="reader", needs_text=True)}
    monkeypatch.setattr(catalog, "STUDIES", every)
    monkeypatch.setattr("regard.studies.page.STUDIES", every)
    monkeypatch.chdir(tmp_path)
    code, _, error = regard("all", "--quick")
    assert code == 0 and given == [None] and "left out" not in error
    code, _, error = regard("all")
    assert code == 0 and given == [None] and "that require --text FILE: reader" in error
    Path("text").write_text("a text")
    assert regard("all", "--text", "text")[0] == 0 and given == [None, Path("text")]
    assert regard("reader", "--text", "absent")[0] == 2
