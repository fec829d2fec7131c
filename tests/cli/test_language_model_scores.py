"""Scores of a language model by hand: completions by the chain rule, windows with a stride, bytes of raw text."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import regard as package
from regard.data.tokenizers.tokenizer import BEGIN, END
from regard.errors import ConfigError, DataError
from regard.tasks.language_model.generator import Generator
from regard.tasks.load import load as load_predictor

CONTEXT = 16
TEXT = "the cat sat on the mat\nthe rat sat on the hat\n"


@pytest.fixture(scope="module")
def model(language_model: Path) -> Generator:
    found = load_predictor(language_model)
    assert isinstance(found, Generator) and found.context == CONTEXT
    return found


def log_p(model: Generator, before: list[int], token: int) -> float:
    """log P of a token after these."""
    with torch.no_grad():
        found, _ = model.model.step(torch.tensor([before]), model.model.start(1))
    return float(found[0, -1, token])


def by_hand(model: Generator, tokens: list[int], stride: int) -> float:
    """−log P of all tokens but the first, one by one, each in the first window that it is in."""
    total = 0.0
    for at in range(1, len(tokens)):
        begin = max(-(-(at - CONTEXT) // stride) * stride, 0)
        total -= log_p(model, tokens[begin:at], tokens[at])
    return total


@pytest.mark.parametrize("stride", [1, 5, CONTEXT])
def test_windows_with_a_stride_are_those_of_a_count_by_hand(
    regard: Any, language_model: Path, model: Generator, tmp_path: Path, stride: int
) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    whole = [BEGIN, *model.tokenizer.encode(TEXT), END]
    assert model.score(TEXT, stride=stride).nll == pytest.approx(by_hand(model, whole[:-1], stride), rel=1e-5)
    given = ["evaluate", language_model, tmp_path / "text.txt", "--stride", stride]
    found = json.loads(regard(*given, "--json").stdout)
    assert found["sums"]["nll"] == pytest.approx(by_hand(model, whole, stride), rel=1e-5)
    assert found["sums"]["tokens"] == len(whole) - 1 and found["sums"]["bytes"] == len(TEXT)
    assert found["settings"]["stride"] == stride and found["settings"]["context"] == CONTEXT
    if stride == 5:
        assert "context 16, stride 5, documents streams, counted every token and end" in regard(*given).stdout
        again = package.evaluate(language_model, tmp_path / "text.txt", stride=5)
        assert again.figures == found["figures"]


@pytest.mark.parametrize("stride", [1, 3, CONTEXT])
def test_no_stride_lets_a_token_see_a_later_one(model: Generator, stride: int) -> None:
    one, two = (
        model.score(text, stride=stride).piece_log_probabilities for text in (TEXT, TEXT[:30] + TEXT[::-1][30:])
    )
    assert list(one[:30]) == list(two[:30]) and list(one[31:]) != list(two[31:])


@pytest.mark.parametrize("stride", [0, CONTEXT + 1])
def test_a_stride_that_leaves_tokens_out_is_refused(
    regard: Any, language_model: Path, model: Generator, tmp_path: Path, stride: int
) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    with pytest.raises(ConfigError, match="stride"):
        model.score(TEXT, stride=stride)
    with pytest.raises(ConfigError):
        package.evaluate(language_model, tmp_path / "text.txt", stride=stride)


PAIRS = [("the cat ", "sat"), ("", "on the mat"), ("the rat", " sat on")]


def test_completions_alone_count_by_the_chain_rule(
    regard: Any, language_model: Path, model: Generator, tmp_path: Path
) -> None:
    """−log P(completion | prompt) = −log P(prompt + completion) + log P(prompt), and the end of each in evaluation."""
    rows = [{"prompt": prompt, "completion": completion} for prompt, completion in PAIRS]
    (tmp_path / "text.jsonl").write_text("\n".join(map(json.dumps, rows)))
    expected, ends = [], 0.0
    for prompt, completion in PAIRS:
        before = model.score(prompt).nll if prompt else 0.0
        expected.append(model.score(prompt + completion).nll - before)
        ends -= log_p(model, [BEGIN, *model.tokenizer.encode(prompt + completion)][-CONTEXT:], END)
        assert model.score(completion, prompt=prompt).nll == pytest.approx(expected[-1], rel=1e-5)
    scored = regard("score", language_model, tmp_path / "text.jsonl")
    assert [-float(line) for line in scored.stdout.splitlines()] == pytest.approx(expected, abs=1e-3)
    assert "context 16, stride 16" in scored.stderr
    size = sum(len(completion) for _, completion in PAIRS)
    found = package.evaluate(language_model, tmp_path / "text.jsonl")
    assert found.sums["nll"] == pytest.approx(sum(expected) + ends, rel=1e-5)
    assert (found.sums["tokens"], found.sums["bytes"]) == (size + len(PAIRS), size)
    assert found.figures["bits_per_byte"] == pytest.approx(found.sums["nll"] / math.log(2) / size)
    assert "completions" in found.settings["counted"] and found.settings["documents"] == "packed"
    every = package.evaluate(language_model, tmp_path / "text.jsonl", loss_on="all")
    assert every.sums["bytes"] == sum(len(prompt + completion) for prompt, completion in PAIRS)
    assert every.sums["nll"] > found.sums["nll"] and every.settings["counted"] == "every token and end"


def test_bytes_are_those_of_the_raw_text_not_of_a_string(regard: Any, tmp_path: Path) -> None:
    """Signs of one to four bytes, through bytes and through characters, in windows and in packs."""
    text = "a é 漢字 🙂👩‍👩‍👧\n" * 3
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    (tmp_path / "text.jsonl").write_text(json.dumps({"prompt": "漢", "completion": text}), encoding="utf-8")
    size = len((tmp_path / "text.txt").read_bytes())
    assert size > 2 * len(text)
    for kind, tokens in (("byte", size + 1), ("character", len(text) + 1)):
        tables: dict[str, Any] = {
            "task": "language-model",
            "data": {"train": [{"source": str(tmp_path / "text.txt")}], "tokenizer": kind, "context": 16},
            "model": {"layers": 1, "width": 8, "heads": 1, "feed_forward": 8},
            "train": {"steps": 1, "batch_tokens": 64, "threads": 1, "precision": "float32"},
        }
        tables["data"]["tokenizer"] = {"kind": kind}
        run = package.train(tables, tmp_path / kind)
        for name in ("text.txt", "text.jsonl"):
            found = package.evaluate(run, tmp_path / name)
            assert (found.sums["tokens"], found.sums["bytes"], found.sums["characters"]) == (tokens, size, len(text))
            assert found.figures["bits_per_byte"] == pytest.approx(found.sums["nll"] / math.log(2) / size)
        score = package.load(run).score(text)
        assert (score.bytes, score.characters) == (size, len(text))


def test_a_line_that_is_no_document_is_named(regard: Any, language_model: Path, tmp_path: Path) -> None:
    (tmp_path / "text.jsonl").write_text('{"text": "the"}\n{"prompt": "the"}\n')
    for verb in ("evaluate", "score"):
        refused = regard(verb, language_model, tmp_path / "text.jsonl").exception
        assert isinstance(refused, DataError) and str(refused.where).endswith("text.jsonl:2")


def test_a_stride_is_of_a_language_model(regard: Any, own_run: Path) -> None:
    refused = regard("evaluate", own_run, own_run.parent / "numbers.txt", "--stride", 2).exception
    assert isinstance(refused, ConfigError) and "stride" in str(refused)


def test_tables_and_columns_are_refused(regard: Any, language_model: Path, tmp_path: Path) -> None:
    """Their heads and cells would be scored as lines of text."""
    (tmp_path / "a.csv").write_text("text,label\nthe cat,x\n")
    for arguments in ([tmp_path / "a.csv"], [tmp_path / "a.csv", tmp_path / "a.csv", "-o", f"{tmp_path}/out/"]):
        refused = regard("score", language_model, *arguments).exception
        assert isinstance(refused, ConfigError) and "csv" in refused.what and not (tmp_path / "out").exists()
    (tmp_path / "a.txt").write_text("the cat\n")
    refused = regard("score", language_model, tmp_path / "a.txt", "--column", "text").exception
    assert isinstance(refused, ConfigError) and refused.where == "--column"
