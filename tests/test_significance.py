"""Paired bootstrap: sacreBLEU's own test for its metrics, the same over items for wer and per."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from regard.errors import DataError
from regard.metrics.significance import RESAMPLES, compare_outputs
from regard.metrics.text import EvaluationSet, evaluate

REFERENCES = [f"the {word} runs over {number} green hills" for number, word in enumerate(["dog", "cat", "fox"] * 20)]
EXAMPLES = EvaluationSet([f"source {number}" for number in range(60)], [[line] for line in REFERENCES])


def worsened(share: float, seed: int = 1) -> list[str]:
    """The references, a share of them with a word replaced."""
    draw = random.Random(seed)
    return [line.replace("green", "x") if draw.random() < share else line for line in REFERENCES]


@pytest.mark.parametrize("metric", ["bleu", "chrf", "exact", "wer", "per"])
def test_a_large_difference_is_none_of_chance_and_none_is(metric: str) -> None:
    good, bad = worsened(0.05), worsened(0.9)
    found = compare_outputs(metric, good, bad, EXAMPLES)
    assert found.value == pytest.approx(evaluate(metric, good, EXAMPLES.references).value, abs=1e-4)
    assert found.other == pytest.approx(evaluate(metric, bad, EXAMPLES.references).value, abs=1e-4)
    assert found.p <= 2 / (RESAMPLES + 1)
    assert compare_outputs(metric, good, worsened(0.05, seed=2), EXAMPLES).p > 0.05


@pytest.mark.parametrize("metric", ["bleu", "per"])
def test_one_and_the_same_output_does_not_differ(metric: str) -> None:
    same = worsened(0.3)
    found = compare_outputs(metric, same, list(same), EXAMPLES)
    assert found.value == found.other == evaluate(metric, same, EXAMPLES.references).value and found.p == 1
    assert metric == "bleu" or compare_outputs(metric, same, [line + " " for line in same], EXAMPLES).p == 1


def test_p_is_that_of_sacrebleu() -> None:
    ours, other = worsened(0.3), worsened(0.45, seed=2)
    test = PairedTest([("b", other), ("a", ours)], {"x": BLEU()}, [REFERENCES], test_type="bs", n_samples=RESAMPLES)
    assert compare_outputs("bleu", ours, other, EXAMPLES).p == test()[1]["BLEU"][1].p_value


def test_p_over_items_is_counted_as_sacrebleu_counts_it() -> None:
    """By hand: the draws of sacreBLEU's seed, errors of one word in each wrong line."""
    ours, other = worsened(0.3), worsened(0.5, seed=2)
    wrong = [np.array([a != b for a, b in zip(lines, REFERENCES, strict=True)]) for lines in (ours, other)]
    draws = np.random.default_rng(12345).choice(60, size=(RESAMPLES, 60), replace=True)
    drawn = np.abs(wrong[0][draws].mean(1) - wrong[1][draws].mean(1)) * 100
    real = abs(wrong[0].mean() - wrong[1].mean()) * 100
    expected = (np.sum(drawn - drawn.mean() > real + 1e-9) + 1) / (RESAMPLES + 1)
    assert compare_outputs("wer", ours, other, EXAMPLES).p == pytest.approx(expected, abs=0.003)


def test_lines_of_one_source_are_one_item() -> None:
    examples = EvaluationSet(["s", "s", "t"], [["A"], ["B"], ["C"]])
    found = compare_outputs("wer", ["B", "B", "x"], ["x", "x", "C"], examples)
    assert (found.value, found.other) == (50.0, 50.0)
    assert found.p > 0.5, "two items cannot tell two systems apart"


def test_outputs_must_face_the_test_set() -> None:
    with pytest.raises(DataError, match="one line per line"):
        compare_outputs("bleu", REFERENCES, REFERENCES[1:], EXAMPLES)
