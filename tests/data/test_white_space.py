"""White space that a tokenizer drops is counted and reported, and kept by the automatic choice of a tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.data.tokenizers.white_space import NORMALIZING, has_layout, report_lost_space
from tests.test_shortcomings import regard

CODE = ["    return x", "if y:", "\tfoo", "a  b", "x = 1", "plain text here", "ends with a space ", "  two"] * 20
KINDS = ["bpe", "unigram", "byte-bpe", "word", "character", "byte"]


@pytest.mark.parametrize("library", ["sentencepiece", "tokenizers"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_count_is_that_of_lines_that_do_not_come_back(kind: Any, library: Any) -> None:
    tokenizer = train_tokenizer(CODE, TokenizerConfig(kind=kind, library=library))
    lost = sum(tokenizer.decode(tokenizer.encode(line)).rstrip() != line.rstrip() for line in CODE)
    message = report_lost_space(tokenizer, CODE, "targets", "data.tokenizer")
    assert (message is None) == (lost == 0)
    assert message is None or f"({lost:,} of {len(CODE):,}) lose white space" in message
    assert kind in NORMALIZING or lost == 0


def test_the_message_shows_one_loss_and_the_key() -> None:
    tokenizer = train_tokenizer(["    x", "y z"] * 50, TokenizerConfig(kind="word"))
    assert report_lost_space(tokenizer, ["    x", "y z"] * 50, "targets", "data.target_tokenizer") == (
        'warning: 50.0% of the targets (50 of 100) lose white space: decode(encode("    x")) is "x"; '
        "--set data.target_tokenizer.kind=byte-bpe keeps it"
    )
    assert report_lost_space(tokenizer, ["y z"], "targets", "data.tokenizer") is None


def test_marks_of_joined_pieces_are_no_lost_space() -> None:
    lines = ["vor@@ her  nach@@ her"] * 20
    tokenizer = train_tokenizer(lines, TokenizerConfig(kind="pretokenized", joiner="@@"))
    assert tokenizer.decode(tokenizer.encode(lines[0])) != lines[0]
    assert report_lost_space(tokenizer, lines, "targets", "data.tokenizer") is None


@given(st.text(alphabet="ab \t", max_size=12))
def test_layout_is_what_single_spaces_do_not_preserve(line: str) -> None:
    """White space at the end does not count."""
    assert has_layout(line) == (line.rstrip() != " ".join(line.split()))


def test_spaces_of_typography_are_no_layout() -> None:
    """French texts have spaces that do not break; merges keep them."""
    lines = ["\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}\N{NO-BREAK SPACE}oui", "a\N{IDEOGRAPHIC SPACE}b"] * 20
    assert not any(map(has_layout, lines))
    assert (
        report_lost_space(train_tokenizer(lines, TokenizerConfig(kind="bpe")), lines, "targets", "data.tokenizer")
        is None
    )


def pairs(folder: Path, target: Callable[[int], str]) -> list[Path]:
    files = [folder / "train.src", folder / "train.tgt"]
    files[0].write_text("".join(f"write the line number {n} of the program now\n" for n in range(250)))
    files[1].write_text("".join(target(n) + "\n" for n in range(250)))
    return files


SMALL = ("--set", "model.layers=1", "--set", "model.width=16", "--set", "model.heads=2", "--set", "train.steps=1",
         "--set", "model.feed_forward=16", "--set", "train.precision=float32")  # fmt: skip


def indented(n: int) -> str:
    return "    " * (n % 4) + f"assert value_{n % 9} == compute(number, {n}) or raise_error()"


def test_targets_that_differ_by_white_space_get_tokens_that_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = pairs(tmp_path, indented)
    result = regard("train", *files, *SMALL)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "byte-bpe pieces" in result.stderr and "white space in the targets" in result.stderr
    assert "lose white space" not in result.stderr


def test_other_targets_get_the_usual_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for layout in (lambda n: indented(n).strip() + "  ", lambda n: "  " * (n == 7) + indented(n).strip()):
        result = regard("train", *pairs(tmp_path, layout), *SMALL)
        assert "byte-bpe pieces" not in result.stderr and "white space in the targets" not in result.stderr


def test_the_hint_keeps_the_white_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = pairs(tmp_path, indented)
    lossy = regard("train", *files, *SMALL, "--set", "data.tokenizer.kind=bpe")
    (line,) = [line for line in lossy.stderr.splitlines() if "of the targets" in line]
    assert line.startswith("warning: 74.7% of the targets")
    hint = line.partition("; ")[2].removesuffix(" keeps it").split()
    kept = regard("train", *files, *SMALL, "--set", "data.tokenizer.kind=bpe", *hint)
    assert kept.exit_code == 0 and "lose white space" not in kept.stderr
