"""``regard score``: log P of given pairs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from regard.errors import DataError

from .conftest import TinyRun


def test_each_line_and_the_perplexity_of_all(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b\n\nc d\n")
    (tmp_path / "t").write_text("A B\n\nD D\n")
    result = regard("score", tiny_run.path, tmp_path / "s", tmp_path / "t")
    first, blank, second = result.stdout.splitlines()
    assert blank == ""
    assert 0 > float(first) > float(second)  # the second is a wrong translation
    perplexity = math.exp(-(float(first) + float(second)) / 6)  # two words and the end, twice
    assert f"2 pairs, 6 pieces, log P {float(first) + float(second):,.2f}" in result.stderr
    assert result.stderr.strip().endswith(f"perplexity {perplexity:.3f} a piece")


def test_agrees_with_search(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    decoded = json.loads(regard("translate", tiny_run.path, "--json", input="e f g\n").stdout)
    (tmp_path / "both.tsv").write_text(f"e f g\t{decoded['text']}\n")
    result = regard("score", tiny_run.path, tmp_path / "both.tsv", "--json")
    line, total = map(json.loads, result.stdout.splitlines())
    assert line["log_probability"] == pytest.approx(decoded["log_probability"], abs=1e-4)
    assert line["pieces"] == [*decoded["text"].split(), "</s>"]
    assert total["perplexity"] == pytest.approx(math.exp(-line["log_probability"] / len(line["pieces"])))


def test_what_is_not_parallel_is_told_before_any_output(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b\nc\n")
    (tmp_path / "t").write_text("A B\n\n")
    result = regard("score", tiny_run.path, tmp_path / "s", tmp_path / "t")
    assert isinstance(result.exception, DataError)
    assert result.stdout == ""
