"""``regard score``: log P of given pairs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from regard.errors import ConfigError, DataError
from regard.tasks.load import load as load_predictor
from regard.tasks.translation.translator import load

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
    assert result.stderr.strip().endswith(f"perplexity {perplexity:.3f} per piece")


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


def test_a_pair_that_is_too_long_is_named_by_line(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b\n\n" + "a " * 257 + "\n")
    (tmp_path / "t").write_text("A B\n\nA\n")
    result = regard("score", tiny_run.path, tmp_path / "s", tmp_path / "t")
    assert isinstance(result.exception, DataError) and result.exception.where == f"{tmp_path / 's'}:3"
    assert "256" in str(result.exception.why)


def test_scores_are_the_same_in_any_company_and_in_order(tiny_run: TinyRun) -> None:
    model = load(tiny_run.path)
    sources = ["a b c d e", "a", "b c", "h g f e d c b a", "c"]
    targets = [source.upper() for source in sources]
    together = model.score(sources, targets)
    for row, *pair in zip(together, sources, targets, strict=True):
        assert model.score([pair[0]], [pair[1]])[0] == pytest.approx(row, abs=1e-4)
    assert model.score(sources, targets, tokens=1) == [pytest.approx(row, abs=1e-4) for row in together]


# Language models


def test_each_line_of_a_text(regard, language_model: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("the cat\n\nthe cat sat on the mat today\n".replace("today", "the hat"))
    result = regard("score", language_model, tmp_path / "text")
    first, blank, second = result.stdout.splitlines()
    model = load_predictor(language_model)
    assert blank == "" and float(first) == pytest.approx(-model.score("the cat").nll, abs=1e-4)
    assert float(second) == pytest.approx(-model.score("the cat sat on the mat the hat").nll, abs=1e-4)
    total, size = float(first) + float(second), len("the cat") + len("the cat sat on the mat the hat")
    assert f"2 lines, {size} pieces" in result.stderr
    assert (
        f"perplexity {math.exp(-total / size):.3f} per piece, {-total / math.log(2) / size:.4f} bits per byte"
        in result.stderr
    )
    line, _, last = map(json.loads, regard("score", language_model, tmp_path / "text", "--json").stdout.splitlines())
    assert line["log_probability"] == pytest.approx(sum(line["piece_log_probabilities"])) and line["line"] == 1
    assert line["pieces"] == list("the cat") and len(line["piece_log_probabilities"]) == 7
    assert last["bytes"] == size and last["bits_per_byte"] == pytest.approx(-total / math.log(2) / size, abs=1e-5)


def test_lines_from_standard_input_each_by_itself(regard, language_model: Path, tmp_path: Path) -> None:
    text = "the cat\n\nthe mat\n\n"
    (tmp_path / "text").write_text(text)
    found = regard("score", language_model, input=text)
    assert found.stdout == regard("score", language_model, tmp_path / "text").stdout
    lines = found.stdout.split("\n")
    assert len(lines) == 5 and lines[1] == lines[3] == "", "a line each, also for a blank one at the end"
    assert regard("score", language_model, "-", input=text).stdout == found.stdout
    one, two, total = map(json.loads, regard("score", language_model, "--json", input=text).stdout.splitlines())
    assert (one["line"], two["line"], total["lines"]) == (1, 3, 2)
    score = load_predictor(language_model).score("the mat")
    assert (two["tokens"], two["bytes"]) == (7, 7) and two["nll"] == pytest.approx(score.nll, abs=1e-4)
    assert two["bits_per_byte"] == pytest.approx(score.bits_per_byte, abs=1e-5)
    assert regard("score", language_model, "--json", input="\n").stdout.count("\n") == 1


def test_lines_that_go_on_from_a_prompt(regard, language_model: Path) -> None:
    model = load_predictor(language_model)
    found = regard("score", language_model, "--prompt", "the c", "--json", input="at\nat sat on the mat\n").stdout
    short, long, _ = map(json.loads, found.splitlines())
    whole, before = model.score("the cat"), model.score("the c")
    assert short["log_probability"] == pytest.approx(before.nll - whole.nll, abs=1e-4)
    assert short["pieces"] == ["a", "t"] and short["bytes"] == 2
    assert long["log_probability"] == pytest.approx(-model.score("at sat on the mat", prompt="the c").nll, abs=1e-4)
    refused = regard("score", language_model, "--prompt", "§", input="a\n").exception
    assert isinstance(refused, ConfigError) and "'§'" in str(refused.why) and refused.where is None


def test_a_translation_is_scored_with_its_source(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b\n")
    for arguments in ([], [tmp_path / "s", tmp_path / "s", "--prompt", "a"]):
        refused = regard("score", tiny_run.path, *arguments, input="a\n").exception
        assert isinstance(refused, ConfigError) and refused.what == "source and target sentences are required"


def test_what_a_language_model_cannot_score(regard, language_model: Path, own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("the\n\n§\n")
    refused = regard("score", language_model, tmp_path / "text").exception
    assert isinstance(refused, ConfigError) and refused.where == f"{tmp_path / 'text'}:3"
    refused = regard("score", language_model, tmp_path / "text", tmp_path / "text").exception
    assert isinstance(refused, ConfigError) and "too many input files" in refused.what
    refused = regard("score", own_run, tmp_path / "text").exception
    assert isinstance(refused, ConfigError) and refused.help == f"use regard predict {own_run}"


def test_the_head_of_a_table_of_pairs_is_no_pair(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "both.tsv").write_text("source\ttarget\na b\tA B\n")
    (tmp_path / "both.csv").write_text("source,target\na b,A B\n")
    for name in ("both.tsv", "both.csv"):
        result = regard("score", tiny_run.path, tmp_path / name)
        assert result.exit_code == 0 and len(result.stdout.splitlines()) == 1, result.output
