"""Word and character error rates: counts with a pencil, and those of jiwer on random texts."""

from __future__ import annotations

import random

import pytest

from regard.core.task import find_task
from regard.metrics.edits import SIGNATURES, Edits, count_edits, edit_table, units
from regard.metrics.text import evaluate

jiwer = pytest.importorskip("jiwer", reason="jiwer is not installed")


def edits(metric: str, reference: str, output: str) -> Edits:
    return count_edits(units(metric, reference), units(metric, output))


def test_counts_with_a_pencil() -> None:
    assert edits("wer", "the cat sat down", "the hat sat") == Edits(2, 1, 1, 0)
    assert edits("wer", "the cat sat down", "the hat sat").rate == 50
    assert edits("cer", "abc d", "abcd e") == Edits(4, 1, 0, 1)
    assert edits("wer", "  a   b ", "a b") == Edits(2, 0, 0, 0)


@pytest.mark.parametrize(("reference", "output"), [("", "a b"), ("", ""), ("a", ""), ("a a", "a a")])
def test_empty_references_count_as_in_jiwer(reference: str, output: str) -> None:
    expected = jiwer.process_words(reference, output)
    counts = edits("wer", reference, output)
    assert counts == (expected.hits, expected.substitutions, expected.deletions, expected.insertions)
    assert counts.rate == pytest.approx(100 * expected.wer)


@pytest.mark.parametrize("metric", SIGNATURES)
def test_counts_are_those_of_jiwer(metric: str) -> None:
    draw = random.Random(0)
    total = Edits(0, 0, 0, 0)
    references, outputs = [], []
    for _ in range(400):
        reference, output = (" ".join(draw.choices("abc", k=draw.randint(0, 7))) for _ in range(2))
        counts = edits(metric, reference, output)
        process = jiwer.process_words if metric == "wer" else jiwer.process_characters
        expected = process(reference, output)
        assert counts == (expected.hits, expected.substitutions, expected.deletions, expected.insertions)
        total = Edits(*map(sum, zip(total, counts, strict=True)))
        references.append(reference)
        outputs.append(output)
    rate = jiwer.wer(references, outputs) if metric == "wer" else jiwer.cer(references, outputs)
    assert total.rate == pytest.approx(100 * rate)


def test_two_meanings_of_wer_have_two_signatures() -> None:
    """In recognition, ``wer`` is edits per word; in pronunciation, items that are wrong."""
    assert edits("wer", "a b c d", "a b c x").rate == 25
    pronunciation = evaluate("wer", ["a b c x"], [["a b c d"]])
    assert pronunciation.value == 100 and "match:any" in pronunciation.signature
    assert "edits" not in pronunciation.signature
    (row,) = edit_table({"wer": edits("wer", "a b", "a")}).rows
    assert row[:2] == ("wer", "edits:words")
    tables = find_task("recognition").tables
    assert tables is not find_task("translation").tables
    assert "signature" in edit_table({}).columns
