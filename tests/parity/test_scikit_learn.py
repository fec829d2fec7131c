"""Metrics against scikit-learn on drawn tables and scores: ties, one class, classes that only occur or only result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.metrics.classes import (
    calibration_error,
    class_figures,
    class_metrics,
    label_set_metrics,
    label_set_sums,
    label_set_tables,
    prediction_sums,
)
from regard.metrics.numbers import number_metrics, number_sums
from regard.metrics.ranking import area_under_curve, average_precision, gain_sums, ranking_sums, ranks

calibration: Any = pytest.importorskip("sklearn.calibration", reason="scikit-learn is not installed")
metrics: Any = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")

DRAWN = settings(max_examples=60, deadline=None)
ROWS = st.integers(1, 40)
BINS, SCORES = 15, 10_000  # of confidence, as Guo et al. 2017 have it; of the scores of a ranking


@st.composite
def predictions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Labels (rows,) and probabilities (rows, classes); some classes never occur, some are never predicted."""
    rows, classes = draw(ROWS), draw(st.integers(2, 6))
    source = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    label = source.integers(0, draw(st.integers(1, classes)), rows)
    scores = source.normal(size=(rows, classes)) * draw(st.sampled_from([0.1, 1.0, 30.0]))
    scores[:, : draw(st.integers(0, classes - 1))] -= 100  # never predicted
    probability = np.exp(scores - scores.max(1, keepdims=True))
    return label, probability / probability.sum(1, keepdims=True)


@DRAWN
@given(predictions())
def test_figures_of_classes(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    label, probability = drawn
    sums = prediction_sums(torch.from_numpy(probability).log(), torch.from_numpy(label))
    predicted, classes = probability.argmax(1), range(probability.shape[1])
    expected = metrics.precision_recall_fscore_support(label, predicted, labels=classes, zero_division=0)
    np.testing.assert_array_equal(sums["confusion"], metrics.confusion_matrix(label, predicted, labels=classes))
    np.testing.assert_allclose(np.array(class_figures(sums["confusion"])).T, expected)
    figures = class_metrics(sums | {"nll": torch.zeros(())})
    assert figures["accuracy"] == pytest.approx(metrics.accuracy_score(label, predicted))
    assert figures["macro_f1"] == pytest.approx(metrics.f1_score(label, predicted, average="macro", zero_division=0))
    assert figures["majority"] == pytest.approx(np.bincount(label).max() / len(label))


@DRAWN
@given(predictions())
def test_calibration_error(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    """The bins of ``calibration_curve``, weighed by their number of examples."""
    label, probability = drawn
    confidence, right = probability.max(1), probability.argmax(1) == label
    accuracy, mean = calibration.calibration_curve(right, confidence, n_bins=BINS, pos_label=True)
    counts = np.histogram(confidence, BINS, (0, 1))[0]
    expected = (np.abs(accuracy - mean) * counts[counts > 0]).sum() / len(label)
    sums = prediction_sums(torch.from_numpy(probability).log(), torch.from_numpy(label))
    assert calibration_error(sums["reliability"]) == pytest.approx(expected, abs=1e-9)


@DRAWN
@given(st.data())
def test_rankings_with_ties(data: st.DataObject) -> None:
    """Scores in the middles of bins: equal ones are ties for both."""
    rows = data.draw(st.integers(2, 40))
    positive = data.draw(arrays(np.bool_, rows).filter(lambda found: found.any() and not found.all()))
    score = (data.draw(arrays(np.int64, rows, elements=st.integers(0, 9))) * 1000 + 0.5) / SCORES
    counts = ranking_sums(torch.from_numpy(score), torch.from_numpy(positive))
    assert area_under_curve(counts) == pytest.approx(metrics.roc_auc_score(positive, score))
    assert average_precision(counts) == pytest.approx(metrics.average_precision_score(positive, score))


@pytest.mark.parametrize("positive", [True, False])
def test_a_ranking_of_one_class_is_finite(positive: bool) -> None:
    counts = ranking_sums(torch.tensor([0.0, 0.5, 1.0]), torch.full((3,), positive))
    assert area_under_curve(counts) == 0 and average_precision(counts) == float(positive)


@DRAWN
@given(st.data())
def test_figures_of_label_sets(data: st.DataObject) -> None:
    rows, labels = data.draw(ROWS), data.draw(st.integers(2, 5))
    told, wanted = (data.draw(arrays(np.bool_, (rows, labels))) for _ in range(2))
    wanted[:, : data.draw(st.integers(0, labels))] = False  # labels that only result
    sums = label_set_sums(*map(torch.from_numpy, (told, wanted))) | {"nll": torch.zeros(())}
    figures, seen = label_set_metrics(sums), np.flatnonzero((told | wanted).any(0))
    f1 = {
        kind: metrics.f1_score(wanted, told, labels=seen, average=kind, zero_division=0) if len(seen) else 0.0
        for kind in ("micro", "macro")
    }
    assert figures["micro_f1"] == pytest.approx(f1["micro"]) and figures["macro_f1"] == pytest.approx(f1["macro"])
    assert figures["exact_match"] == pytest.approx(metrics.accuracy_score(wanted, told))
    expected = metrics.precision_recall_fscore_support(wanted, told, average=None, zero_division=0)
    table = label_set_tables(sums, [str(n) for n in range(labels)])["classes"].rows
    np.testing.assert_allclose(np.array([row[1:] for row in table]).T, expected)
    usual = np.zeros_like(wanted)
    usual[:, wanted.sum(0).argmax()] = True
    baseline = metrics.f1_score(wanted, usual, average="micro", zero_division=0)
    assert figures["usual_micro_f1"] == pytest.approx(baseline)


@DRAWN
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0, 1000.0]))
def test_figures_of_numbers(rows: int, seed: int, offset: float) -> None:
    draw = np.random.default_rng(seed)
    told, wanted = (offset + draw.normal(size=rows).round(draw.integers(0, 4)) for _ in range(2))
    figures = number_metrics(number_sums(*map(torch.from_numpy, (told, wanted))) | {"nll": torch.zeros(())})
    assert figures["rmse"] == pytest.approx(metrics.root_mean_squared_error(wanted, told), abs=1e-4)
    assert figures["mae"] == pytest.approx(metrics.mean_absolute_error(wanted, told))
    mean = np.full(rows, wanted.mean())
    assert figures["mean_rmse"] == pytest.approx(metrics.root_mean_squared_error(wanted, mean), abs=1e-4)
    varies = np.ptp(told) > 0 and np.ptp(wanted) > 0
    pearson = np.corrcoef(told, wanted)[0, 1] if varies else 0.0
    assert figures["pearson"] == pytest.approx(pearson, abs=1e-5)


@DRAWN
@given(st.integers(1, 20), st.integers(2, 30), st.integers(0, 2**32 - 1))
def test_gains_of_rankings(rows: int, items: int, seed: int) -> None:
    """NDCG of one item that counts, among the first ten; scores are all different."""
    draw = np.random.default_rng(seed)
    scores = draw.permuted(np.tile(np.arange(float(items)), (rows, 1)), axis=1)
    target = draw.integers(0, items, rows)
    hits, gains = gain_sums(ranks(torch.from_numpy(scores), torch.from_numpy(target))).tolist()
    relevant = np.eye(items)[target]
    assert gains / rows == pytest.approx(metrics.ndcg_score(relevant, scores, k=10))
    if items > 10:
        labels = np.arange(items)
        expected = metrics.top_k_accuracy_score(target, scores, k=10, labels=labels)
        assert hits / rows == pytest.approx(expected)


def test_equal_scores_are_ranked_by_their_order() -> None:
    """A model that prefers nothing finds no more than ten of the items."""
    place = ranks(torch.zeros(20, 20), torch.arange(20))
    assert place.tolist() == list(range(20)) and gain_sums(place)[0] == 10
