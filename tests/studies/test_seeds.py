"""Studies over several seeds: values by seed, "holds in k of N", and checks, which no seed can change."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from regard.errors import ConfigError
from regard.studies import catalog
from regard.studies.page import write_page
from regard.studies.record import read_record, record_study
from regard.studies.seeds import seed_table, seed_verdict, summarize_seeds
from regard.studies.study import Criterion, Findings, Report, Study, at_least, at_most
from tests.studies.test_framework import TOY, draw, regard

VALUES = {1: 2.0, 2: 4.0, 3: 0.5, 4: 5.0, 5: 3.0}


@pytest.fixture
def seeds_run(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A study with the value of its seed, against 1 and against a threshold of the seed; the seeds that ran."""
    ran: list[int] = []

    def run(*, seed: int, minimal: bool, report: Report) -> Findings:
        ran.append(seed)
        report(0.5)
        report(1.0)
        value = VALUES.get(seed, math.nan)
        criteria = [at_least("value", value, 1.0), at_most(f"choice of seed {seed}", 0, seed)]
        return Findings(columns=("seed",), rows=[(seed,)], criteria=criteria, draw=draw)

    module = ModuleType("regard.studies.toy")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "regard.studies.toy", module)
    _catalog(monkeypatch, TOY)
    return ran


def _catalog(monkeypatch: pytest.MonkeyPatch, *studies: Study) -> None:
    table = {study.name: study for study in studies}
    monkeypatch.setattr(catalog, "STUDIES", table)
    monkeypatch.setattr("regard.studies.page.STUDIES", table)


def test_each_seed_counts_once(seeds_run: list[int], tmp_path: Path) -> None:
    record = record_study(TOY, tmp_path, seeds=5)
    assert seeds_run == [1, 2, 3, 4, 5]
    summary = record["over_seeds"]
    assert (summary["seeds"], summary["holds"]) == ([1, 2, 3, 4, 5], [True, True, False, True, True])
    value, choice = summary["criteria"]
    assert value["values"] == [*VALUES.values()] and value["holds"] == 4
    assert value["mean"] == pytest.approx(2.9)
    assert value["error"] == pytest.approx(0.7810, abs=1e-4), "standard deviation 1.7464 / √5"
    assert choice["thresholds"] == [1, 2, 3, 4, 5] and choice["names"][4] == "choice of seed 5"
    assert record["seed"] == 1 and record["rows"] == [[1]], "the table is that of the first seed"
    assert not record["holds"] and seed_verdict(summary) == "holds in 4 of 5"
    assert read_record(tmp_path / "result.json") == record


def test_one_seed_is_recorded_without_a_summary(seeds_run: list[int], tmp_path: Path) -> None:
    record = record_study(TOY, tmp_path, seeds=1)
    assert "over_seeds" not in record and seeds_run == [1]


def test_runs_share_no_seed(seeds_run: list[int], tmp_path: Path) -> None:
    """A study that itself averages over seeds 1, 2, 3 goes on with 4: otherwise the runs would be dependent."""
    record_study(replace(TOY, seeds_per_run=3), tmp_path, seeds=3, seed=2)
    assert seeds_run == [2, 5, 8]
    several = {"modern", "middle-word", "pretrain"}
    assert {name for name in several if catalog._ALL and _study(name).seeds_per_run == 3} == several


def _study(name: str) -> Study:
    return next(study for study in catalog._ALL if study.name == name)


def test_progress_is_that_of_all_seeds(seeds_run: list[int], tmp_path: Path) -> None:
    shares: list[float] = []
    record_study(TOY, tmp_path, seeds=2, report=shares.append)
    assert shares == [0.25, 0.5, 0.75, 1.0]


def test_finished_seeds_survive_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*, seed: int, minimal: bool, report: Report) -> Findings:
        if seed == 3:
            raise KeyboardInterrupt
        return Findings(columns=(), rows=[], criteria=[at_most("x", 0, 1)], draw=draw)

    module = ModuleType("regard.studies.toy")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "regard.studies.toy", module)
    with pytest.raises(KeyboardInterrupt):
        record_study(TOY, tmp_path, seeds=5)
    assert read_record(tmp_path / "result.json")["over_seeds"]["seeds"] == [1, 2]


def test_the_command_prints_values_by_seed(
    seeds_run: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGARD_QUICK", raising=False)
    code, out, _ = regard("toy", "--seeds", "3", "--out", str(tmp_path))
    assert code == 0 and "toy holds in 2 of 3" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["value", "2", "4", "0.5", "2.167", "±", "1", "≥", "1", "2", "of", "3"] in rows
    assert any("(differs by seed)" in line and "≤ 1 to 3" in line for line in out.splitlines())
    assert ["all", "criteria", "yes", "yes", "no", "2", "of", "3"] in rows
    _, out, _ = regard("toy", "--seeds", "2", "--seed", "4", "--json", "--out", str(tmp_path))
    assert json.loads(out)["over_seeds"]["criteria"][0]["values"] == [5.0, 3.0]


def test_the_page_counts_seeds(seeds_run: list[int], tmp_path: Path) -> None:
    record_study(TOY, tmp_path / "runs" / "toy", seeds=3)
    write_page(tmp_path / "page.md", tmp_path / "runs")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| holds in 2 of 3 |" in text and "**Holds in 2 of 3.**" in text and "2.167 ± 1 |" in text
    assert "Table and figure: seed 1." in text and "`regard study toy --seed 1 --seeds 3`" in text


def test_values_that_are_not_finite_have_no_mean() -> None:
    summary = summarize_seeds([_record(1.0), _record(math.inf)])
    assert summary["criteria"][0]["mean"] is None and summary["criteria"][0]["error"] is None
    assert seed_table(summary)[1][0] == ("x", 1.0, "inf", "", "≤ 2", "1 of 2")
    with pytest.raises(ValueError):
        summarize_seeds([_record(1.0), _record(1.0) | {"criteria": []}])


def _record(value: float) -> dict[str, Any]:
    criterion = Criterion("x", value, "≤", 2.0)
    plain = criterion._asdict() | {"holds": criterion.holds, "value": value if math.isfinite(value) else str(value)}
    return {"seed": 1, "holds": criterion.holds, "seconds": 1.0, "criteria": [plain]}


CHECKS = {"dictionary", "saturation", "positions", "layers", "reversible"}


def test_a_check_refuses_several_seeds(tmp_path: Path) -> None:
    assert {study.name for study in catalog._ALL if study.check} == CHECKS
    for name in CHECKS:
        with pytest.raises(ConfigError, match="`--seeds` does not apply") as failure:
            record_study(_study(name), tmp_path, seeds=2)
        assert "no seed can change" in str(failure.value)
    assert not any(tmp_path.iterdir())


def test_a_check_is_refused_before_another_study_runs(
    seeds_run: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = replace(TOY, name="sure", check=True)
    _catalog(monkeypatch, TOY, check)
    with pytest.raises(ConfigError, match="the check sure"):
        regard("toy", "sure", "--seeds", "2", "--out", str(tmp_path))
    assert seeds_run == []


def test_all_runs_checks_once_and_calls_them_checks(
    seeds_run: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "regard.studies.sure", sys.modules["regard.studies.toy"])
    _catalog(monkeypatch, TOY, replace(TOY, name="sure", check=True))
    code, out, error = regard("all", "--seeds", "2", "--out", str(tmp_path), "--page", str(tmp_path / "page.md"))
    assert code == 0 and seeds_run == [1, 2, 1]
    assert "1 check run with one seed: sure" in error
    assert "toy holds in 2 of 2" in out and "sure holds (check: no seed can change this verdict)" in out
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| check: holds |" in text and "**Check: holds.**" in text
    out = regard("list")[1]
    assert out.count("; check; 1 s with one thread") == 1
    assert [study["check"] for study in json.loads(regard("list", "--json")[1])] == [False, True]


def test_settings_are_those_of_the_study(seeds_run: list[int], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no setting 'sizes'"):
        regard("toy", "--set", "sizes=[100]", "--out", str(tmp_path))
    assert seeds_run == []
