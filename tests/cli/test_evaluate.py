"""``regard evaluate``: what it decodes, what it compares with, what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.errors import ConfigError, DataError, ModelError

from .conftest import TinyRun


def test_scores_are_those_of_the_outputs_kept(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    kept = tmp_path / "outputs"
    result = regard(
        "evaluate", tiny_run.path, tiny_run.source, tiny_run.target,
        "--metric", "bleu,wer", "--beam", "1", "--json", "--output", kept, "--checkpoint", "100",
    )  # fmt: skip
    found = json.loads(result.stdout)
    outputs, targets = kept.read_text().splitlines(), tiny_run.target.read_text().splitlines()
    assert len(outputs) == len(targets) == found["lines"] == 40
    sources = dict(zip(tiny_run.source.read_text().splitlines(), zip(outputs, targets, strict=True), strict=True))
    wrong = sum(output != target for output, target in sources.values())
    assert found["scores"]["wer"]["value"] == pytest.approx(100 * wrong / len(sources))
    assert found["distinct_sources"] == len(sources)
    assert found["search"]["beam"] == 1
    assert found["checkpoint"] == "step 100"
    assert found["scores"]["bleu"]["signature"].startswith("BLEU|nrefs:1|case:mixed")
    assert found["scores"]["wer"]["lower_is_better"] is True
    import sacrebleu

    assert found["scores"]["bleu"]["value"] == pytest.approx(sacrebleu.corpus_bleu(outputs, [targets]).score)


def test_lines_of_one_source_are_several_references(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    both = tmp_path / "both.tsv"
    both.write_text("a b\tX Y\na b\tA B\nc d\tC D\n")
    result = regard("evaluate", tiny_run.path, both, "--metric", "wer,bleu-tok-lc")
    lines = result.stdout.splitlines()
    assert lines[0].split()[:2] == ["wer", "0.00"]
    assert "nrefs:var" in lines[0]
    assert "nrefs:1" in lines[1]
    assert lines[2].startswith("3 lines, beam 5, checkpoint best (step ")
    assert lines[3].startswith("2 distinct sources: for wer and per")


def test_further_files_are_further_references(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b c d\n")
    (tmp_path / "t").write_text("H H H H\n")
    (tmp_path / "u").write_text("A B C D\n")
    one = regard("evaluate", tiny_run.path, tmp_path / "s", tmp_path / "t", "--metric", "ter", "--json")
    two = regard("evaluate", tiny_run.path, tmp_path / "s", tmp_path / "t", tmp_path / "u", "--metric", "ter", "--json")
    assert json.loads(one.stdout)["scores"]["ter"]["value"] == 100
    assert json.loads(two.stdout)["scores"]["ter"]["value"] == 0
    assert "nrefs:2" in json.loads(two.stdout)["scores"]["ter"]["signature"]


def test_a_wrong_metric_is_told_before_anything_is_read(regard, tmp_path: Path) -> None:
    result = regard("evaluate", tmp_path / "none", tmp_path / "none", "--metric", "bleu,blue")
    assert isinstance(result.exception, ConfigError)
    assert "blue" in result.exception.what


def test_files_that_are_not_parallel(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("A B\n")
    result = regard("evaluate", tiny_run.path, tiny_run.source, tmp_path / "t")
    assert isinstance(result.exception, DataError)


def test_two_systems_are_compared(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    call = ("evaluate", tiny_run.path, tiny_run.source, tiny_run.target, "--metric", "bleu,wer", "--beam", "1")
    poor = tmp_path / "poor"
    poor.write_text("X Y Z\n" * 40)
    found = json.loads(regard(*call, "--against", poor, "--json").stdout)
    for name, better in (("bleu", 1), ("wer", -1)):
        compared = found["against"]["scores"][name]
        assert compared["p"] < 0.01 and compared["difference"] * better > 0
        assert compared["value"] + compared["difference"] == pytest.approx(found["scores"][name]["value"], abs=1e-3)
    told = regard(*call, "--against", tiny_run.path).stdout
    assert f"against {tiny_run.path}" in told and "+0.00  p = 1.0000" in told
    (tmp_path / "short").write_text("X\n")
    assert isinstance(regard(*call, "--against", tmp_path / "short").exception, DataError)
    assert isinstance(regard(*call, "--against", tmp_path / "absent").exception, ModelError)
