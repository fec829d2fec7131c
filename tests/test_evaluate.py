"""Metrics by pencil, and against sacreBLEU called by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import sacrebleu
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError, DataError
from regard.metrics.text import (
    METRICS,
    EvaluationSet,
    edit_distance,
    evaluate,
    metric_sums,
    metric_value,
    read_examples,
)

WORD = TokenizerConfig(kind="word")
PIECES = TokenizerConfig(kind="pretokenized", joiner="@@")

words = st.lists(st.sampled_from("abc"), max_size=6)
sentences = st.lists(st.sampled_from(["the", "cat", "sat", "on", "a", "mat."]), min_size=1, max_size=7).map(" ".join)


@pytest.mark.parametrize(
    ("left", "right", "edits"),
    [("", "", 0), ("kitten", "sitting", 3), ("sunday", "saturday", 3), ("abc", "", 3), ("ab", "ba", 2)],
)
def test_edit_distance(left: str, right: str, edits: int) -> None:
    assert edit_distance(list(left), list(right)) == edit_distance(list(right), list(left)) == edits


@given(words, words, words)
def test_edit_distance_is_a_distance(a: list[str], b: list[str], c: list[str]) -> None:
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))


def test_word_and_phoneme_error_rates_by_pencil() -> None:
    outputs = ["T AH M EY T OW", "R IY D", "HH AY", ""]
    references = [
        ["T AH M AA T OW", "T AH M EY T OW"],  # the second: right, 0 of 6
        ["R EH D", "R IY D Z"],  # wrong: one edit from either, and the longer counts: 1 of 4
        ["HH EH L OW"],  # wrong: EH for AY, L and OW missing, 3 of 4
        ["AH"],  # wrong: 1 of 1
    ]
    wer, per = evaluate("wer", outputs, references), evaluate("per", outputs, references)
    assert wer.value == 75.0
    exact = evaluate("exact", outputs, references)
    assert exact.value == 25.0 and not exact.lower_is_better
    assert exact.signature.startswith("EXACT|nrefs:var|match:any|version:regard-")
    assert per.value == pytest.approx(100 * (0 + 1 + 3 + 1) / (6 + 4 + 4 + 1))
    assert wer.lower_is_better and per.lower_is_better
    assert wer.signature.startswith("WER|nrefs:var|match:any|version:regard-")


def test_phoneme_error_rate_sums_before_it_divides() -> None:
    score = evaluate("per", ["a b c d", "x"], [["a b c d"], ["y"]])
    assert score.value == pytest.approx(100 * 1 / 5)  # the mean of 0 and 100 would be 50
    assert evaluate("per", ["a b c"], [["a"]]).value == pytest.approx(200)  # insertions may exceed the reference


def test_bleu_by_pencil() -> None:
    # 1- to 4-grams: 5/6, 3/5, 2/4, 1/3; the output is as long as the reference
    score = evaluate("bleu", ["the cat sat on the hat"], [["the cat sat on the mat"]])
    assert score.value == pytest.approx(100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)
    # brevity: 5 words against 6, every n-gram right: exp(1 − 6/5)
    short = evaluate("bleu", ["the cat sat on the"], [["the cat sat on the mat"]])
    assert short.value == pytest.approx(100 * math.exp(-0.2))


def test_character_and_edit_scores_by_pencil() -> None:
    assert evaluate("ter", ["a b c d"], [["a b x d"]]).value == pytest.approx(25)
    assert evaluate("chrf", ["same"], [["same"]]).value == pytest.approx(100)


def test_the_papers_bleu_takes_the_text_as_tokenized_and_ignores_case() -> None:
    outputs, references = ["A man , sitting ."], [["a man , sitting ."]]
    assert evaluate("bleu-tok-lc", outputs, references).value == pytest.approx(100)
    assert evaluate("bleu", outputs, references).value < 100
    hyphen = ["a b c well-known."]
    assert evaluate("bleu-tok-lc", hyphen, [["a b c well-known ."]]).value < 100  # two tokens are not one
    assert evaluate("bleu", hyphen, [["a b c well-known ."]]).value == pytest.approx(100)
    assert "case:lc|eff:no|tok:none" in evaluate("bleu-tok-lc", outputs, references).signature


def test_equal_to_sacrebleu() -> None:
    outputs = ["Ein Hund läuft über das Gras.", "Zwei Männer sitzen.", "Ein Kind spielt im Schnee mit einem Ball."]
    first = ["Ein Hund rennt über das Gras.", "Zwei Männer sitzen da.", "Ein Kind spielt mit einem Ball im Schnee."]
    second = ["Der Hund läuft über Gras.", "Zwei Leute sitzen.", "Ein Kind spielt im Schnee."]
    references = [list(pair) for pair in zip(first, second, strict=True)]
    streams = [first, second]
    assert evaluate("bleu", outputs, references).value == sacrebleu.corpus_bleu(outputs, streams).score
    assert evaluate("chrf", outputs, references).value == sacrebleu.corpus_chrf(outputs, streams).score
    assert evaluate("ter", outputs, references).value == sacrebleu.corpus_ter(outputs, streams).score
    papers = sacrebleu.corpus_bleu(outputs, streams, lowercase=True, tokenize="none", force=True).score
    assert evaluate("bleu-tok-lc", outputs, references).value == papers
    assert evaluate("bleu", outputs, references).signature == (
        f"BLEU|nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    )


def test_different_numbers_of_references() -> None:
    score = evaluate("bleu", ["a b c d", "e f g h"], [["x y z w", "a b c d"], ["e f g h"]])
    assert score.value == pytest.approx(100)
    assert "nrefs:var" in score.signature


def test_the_target_language_chooses_the_tokenizer() -> None:
    assert "tok:zh" in evaluate("bleu", ["你好"], [["你好"]], language="zh-CN").signature


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_to_score(metric: str) -> None:
    with pytest.raises(DataError):
        evaluate(metric, [], [])
    with pytest.raises(DataError):
        evaluate(metric, ["a"], [[]])


def test_an_unknown_metric() -> None:
    with pytest.raises(ConfigError, match="blue"):
        evaluate("blue", ["a"], [["a"]])


def test_lines_of_one_source_are_one_item() -> None:
    examples = EvaluationSet(["read", "go", "read"], [["R EH D"], ["G OW"], ["R IY D"]])
    assert examples.by_source() == EvaluationSet(["read", "go"], [["R EH D", "R IY D"], ["G OW"]])


def test_references_are_read_and_put_together(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b@@ c\nd\n")
    (tmp_path / "t").write_text("kara@@ te an@@ zug\ny@@\n")
    (tmp_path / "u").write_text("karate@@ anzug\nz\n")
    examples = read_examples(tmp_path / "s", [tmp_path / "t", tmp_path / "u"], tokenizer=PIECES)
    assert examples == EvaluationSet(["a b@@ c", "d"], [["karate anzug", "karateanzug"], ["y", "z"]])
    assert read_examples(tmp_path / "s", [tmp_path / "t"], tokenizer=WORD).references[0] == ["kara@@ te an@@ zug"]
    (tmp_path / "both.tsv").write_text("go\tG OW\n")
    assert read_examples(tmp_path / "both.tsv", tokenizer=WORD) == EvaluationSet(["go"], [["G OW"]])


@given(st.lists(st.tuples(sentences, sentences, sentences), min_size=2, max_size=6), st.integers(1, 5))
@settings(max_examples=30)
def test_sums_of_two_parts_give_the_figure_of_the_whole(rows: list[tuple[str, str, str]], cut: int) -> None:
    """To the last digit of sacreBLEU's own, which sees the corpus at once."""
    outputs, references = [row[0] for row in rows], [list(row[1:]) for row in rows]
    streams = [[row[1] for row in rows], [row[2] for row in rows]]
    whole = {
        "bleu": sacrebleu.corpus_bleu(outputs, streams).score, "chrf": sacrebleu.corpus_chrf(outputs, streams).score,
        "ter": sacrebleu.corpus_ter(outputs, streams).score,
    }  # fmt: skip
    cut = min(cut, len(rows) - 1)
    for metric in METRICS:
        parts = [metric_sums(metric, outputs[at], references[at]) for at in (slice(0, cut), slice(cut, None))]
        added = sum(torch.tensor(part, dtype=torch.float64) for part in parts)
        assert isinstance(added, torch.Tensor)
        expected = whole.get(metric, evaluate(metric, outputs, references).value)
        if metric.startswith("rouge"):  # a sum of fractions
            expected = pytest.approx(expected, rel=1e-12)
        assert metric_value(metric, added.tolist()) == expected
