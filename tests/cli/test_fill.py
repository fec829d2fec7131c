"""``regard fill``: gaps of a text given, or of lines that come; and what else a masked run can do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import regard as package
from regard.errors import ConfigError, DataError

from .other_runs import train_masked


@pytest.fixture(scope="module")
def masked_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    threads = torch.get_num_threads()
    run = train_masked(tmp_path_factory.mktemp("masked"))
    torch.set_num_threads(threads)
    return run


def test_a_text_is_filled(regard, masked_run: Path) -> None:
    result = regard("fill", masked_run, "the ___ sat on the mat", "--top-k", "2")
    assert result.exit_code == 0, result.stderr
    filled, _, candidates = result.stdout.rstrip("\n").partition("\t")
    (found,) = package.load(masked_run)(["the ___ sat on the mat"], top_k=2)
    assert filled == found.text
    assert candidates == "  ".join(f"{each.text} {each.probability:.3f}" for each in found.gaps[0])


def test_several_gaps_and_texts_give_a_line_each(regard, masked_run: Path) -> None:
    result = regard("fill", masked_run, "the ___ sat on the ___", "the cat ___", "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [len(each["gaps"]) for each in found] == [2, 1]
    assert all(len(gap) == 5 for each in found for gap in each["gaps"])


def test_lines_of_standard_input_are_filled_up_to_one_without_a_gap(regard, masked_run: Path) -> None:
    result = regard("fill", masked_run, input="the ___ sat\na ___\nno gap\nthe ___\n")
    assert len(result.stdout.splitlines()) == 2
    assert isinstance(result.exception, DataError)
    assert result.exception.where == "standard input:3"
    assert "has no gap" in result.exception.what and "___" in str(result.exception.why)


def test_a_text_without_a_gap_is_refused(regard, masked_run: Path) -> None:
    refused = regard("fill", masked_run, "the cat sat").exception
    assert isinstance(refused, DataError) and "___" in str(refused.why)


def test_another_verb_names_its_own(regard, masked_run: Path) -> None:
    refused = regard("generate", masked_run).exception
    assert isinstance(refused, ConfigError) and "regard fill" in str(refused.help)


def test_other_verbs_know_the_run(regard, masked_run: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the cat sat on the mat\n" * 3)
    told = regard("evaluate", masked_run, tmp_path / "text.txt", "--json")
    assert told.exit_code == 0, told.stderr
    figures = json.dumps(json.loads(told.stdout))
    assert "pseudo_perplexity" in figures and "unigram_loss" in figures
    assert "masked" in regard("info", masked_run).stdout
    looked = regard("inspect", masked_run, "the ___ sat", "--json")
    assert looked.exit_code == 0, looked.stderr
    assert "___" in looked.stdout
