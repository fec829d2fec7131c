"""The estimators follow scikit-learn's contract, with its own checks where they apply."""

from __future__ import annotations

import gc
import pickle  # noqa: TID251
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

import regard
from regard.errors import ConfigError
from regard.sklearn import Forecaster, GraphClassifier, SequenceTagger, TextClassifier

TRAIN = {"steps": 2, "validate_every": 2, "threads": 1, "workers": 1}
SHORT = {"train": {**TRAIN, "baseline": False}, "model.width": 16, "model.layers": 1}
SERIES = {"train": TRAIN, "model": {"width": 16, "heads": 2, "feed_forward": 16}}
LEARNING = {**SHORT, "train.steps": 10, "train.validate_every": 10, "train.learning_rate": 0.05}
TEXTS = [f"{word} a film {number}" for number in range(20) for word in ("fine", "dull")]
LABELS = ["good", "bad"] * 20
SENTENCES = [["the", "dog", f"sees{number}"] for number in range(30)]
TAGS = [["DET", "NOUN", "VERB"] for _ in SENTENCES]
GRAPHS = [{"edges": [[0, 1], [1, 2]] + [[2, 0]] * (number % 2)} for number in range(40)]
WAVE = np.sin(np.arange(120) / 5)
FITTED: dict[str, tuple[Any, Any, Any]] = {
    "texts": (TextClassifier(settings=SHORT), TEXTS, LABELS),
    "graphs": (GraphClassifier(settings=SHORT), GRAPHS, LABELS),
    "tags": (SequenceTagger(settings=SHORT), SENTENCES, TAGS),
    "series": (Forecaster(horizon=4, look_back=16, settings=SERIES), WAVE, None),
}
EVERY = pytest.mark.parametrize("name", FITTED)


loads = pickle.loads


def fitted(name: str) -> tuple[Any, Any, Any]:
    estimator, X, y = FITTED[name]
    return clone(estimator).fit(X, y), X, y


def equal(one: Any, other: Any) -> bool:
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


# Checks of scikit-learn that pass no data; the others pass rows of numbers, see ``OfNumbers``.
API_CHECKS = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimators_unfitted",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
)


@EVERY
@pytest.mark.parametrize("check", API_CHECKS)
def test_checks_without_data_hold(name: str, check: str) -> None:
    estimator = FITTED[name][0]
    getattr(estimator_checks, check)(type(estimator).__name__, clone(estimator))


class OfNumbers(TextClassifier):
    """The classifier of texts for rows of numbers, which scikit-learn's checks pass: a row becomes a text.

    ``validate_data`` rejects what every estimator of numbers must reject, as a vectorizer in front would.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = False, True
        return tags

    def fit(self, X: Any, y: Any) -> Any:
        from sklearn.utils.validation import validate_data

        if y is not None:
            X, y = validate_data(self, X, y, dtype=None)
        return super().fit(X, y)

    def _inputs(self, X: Any) -> list[Any]:
        from sklearn.utils.validation import validate_data

        rows = validate_data(self, X, reset=False) if hasattr(self, "n_features_in_") else X
        return super()._inputs([" ".join(f"{number:.3g}" for number in row) for row in rows])


NEEDING_MORE = {"check_array_api_input", "check_classifier_data_not_an_array"}  # a variable of scipy, and pandas
EXPECTED_FAILURES = {"check_classifiers_train": "it tests the accuracy on clusters of numbers, after one update"}


def test_checks_with_data_hold_for_rows_of_numbers_as_texts() -> None:
    estimator = OfNumbers(settings={**SHORT, "train.steps": 1, "data.max_length": 4, "model.affixes": 0})
    results = estimator_checks.check_estimator(
        estimator, on_fail=None, on_skip=None, expected_failed_checks=EXPECTED_FAILURES
    )
    status = {kind: {result["check_name"] for result in results if result["status"] == kind} for kind in
              ("passed", "failed", "xfail", "skipped")}  # fmt: skip
    assert status["failed"] == set() and status["xfail"] == {*EXPECTED_FAILURES}
    assert len(status["passed"]) > 40 and status["skipped"] <= NEEDING_MORE


@EVERY
def test_a_copy_predicts_the_same_without_the_original(name: str) -> None:
    estimator, X, _ = fitted(name)
    inputs = () if name == "series" else (X,)
    expected, saved, folder = estimator.predict(*inputs), pickle.dumps(estimator), estimator.run_
    assert folder.is_dir()
    del estimator
    gc.collect()
    assert not folder.parent.exists()
    copy = loads(saved)
    assert copy.run_ != folder and equal(copy.predict(*inputs), expected)
    again = loads(pickle.dumps(copy))  # of the files of the copy
    assert equal(again.predict(*inputs), expected)


def test_a_copy_has_the_calibration_and_the_baseline_of_the_run() -> None:
    estimator = TextClassifier(preset="tiny", epochs=1, settings={"train.threads": 1}).fit(TEXTS, LABELS)
    copy = loads(pickle.dumps(estimator))
    assert np.array_equal(estimator.predict_proba(TEXTS), copy.predict_proba(TEXTS))
    names = {file.name for file in copy.run_.rglob("*")}
    assert "baseline.safetensors" in names and not names & {"optimizer.safetensors", "inputs", "data"}


def test_a_run_in_a_named_folder_stays_and_is_read_by_its_copies(tmp_path: Path) -> None:
    estimator = TextClassifier(runs=tmp_path, settings=SHORT).fit(TEXTS, LABELS)
    saved = pickle.dumps(estimator)
    folder, expected = estimator.run_, estimator.predict(TEXTS)
    assert folder.parent == tmp_path and len(saved) < 10_000
    assert estimator.fit(TEXTS, LABELS).run_ != folder
    del estimator
    gc.collect()
    assert loads(saved).run_ == folder and equal(loads(saved).predict(TEXTS), expected)
    assert regard.load(folder)(TEXTS[0]).label == expected[0]


@EVERY
def test_parameters_stay_and_equal_fits_predict_equally(name: str) -> None:
    estimator, X, y = fitted(name)
    given = FITTED[name][0].get_params()
    assert estimator.get_params() == given
    inputs = () if name == "series" else (X,)
    first = estimator.predict(*inputs)
    assert equal(estimator.fit(X, y).predict(*inputs), first)
    before = {key: id(value) for key, value in vars(estimator).items()}
    estimator.predict(*inputs)
    assert {key: id(value) for key, value in vars(estimator).items()} == before


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array([7, -3] * 20), [-3, 7]),
        ([True, False] * 20, [False, True]),
        ([" a", "a", "", "a\nb"] * 10, ["", " a", "a", "a\nb"]),
        (np.array(["x", "1"] * 20, dtype=object), ["1", "x"]),
    ],
)
def test_labels_come_back_as_they_were(y: Any, classes: list[Any]) -> None:
    estimator = TextClassifier(settings=SHORT).fit(np.array(TEXTS), y)
    assert estimator.classes_.tolist() == classes
    p = estimator.predict_proba(TEXTS)
    assert p.shape == (40, len(classes)) and np.allclose(p.sum(1), 1)
    predicted = estimator.predict(TEXTS)
    assert predicted.tolist() == [classes[best] for best in p.argmax(1)]
    assert estimator.score(TEXTS, y) == accuracy_score(y, predicted)


def test_training_learns_the_order_of_the_classes() -> None:
    """A swap of columns or names would have accuracy 0."""
    names = ["fine" in text for text in TEXTS]
    assert TextClassifier(settings=LEARNING).fit(TEXTS, names).score(TEXTS, names) == 1
    tags = [[2, 10, 1] for _ in SENTENCES]  # the order of the numbers is not that of their texts
    tagger = SequenceTagger(settings=LEARNING).fit(SENTENCES, tags)
    assert tagger.predict([*SENTENCES[:1], []]) == [[2, 10, 1], []] and tagger.score(SENTENCES, tags) == 1
    assert tagger.score(SENTENCES, [[2, 10, 0]] * 30) == pytest.approx(2 / 3)


def test_parameters_take_precedence_over_settings() -> None:
    estimator = TextClassifier(epochs=1, seed=5, settings={"train": {"epochs": 9, "threads": 1}, "seed": 4})
    config = estimator.fit(TEXTS, LABELS).model_.config
    assert (config.train.epochs, config.train.threads, config.seed) == (1, 1, 5)


def test_a_grid_search_over_settings_finds_the_one_that_learns() -> None:
    lowered = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = Pipeline([("lower", lowered), ("texts", TextClassifier())])
    search = GridSearchCV(pipeline, {"texts__settings": [LEARNING, SHORT]}, cv=2, error_score="raise")
    search.fit(TEXTS, LABELS)
    assert search.best_params_ == {"texts__settings": LEARNING} and search.best_score_ == 1
    assert search.predict(["a fine film", "a dull film"]).tolist() == ["good", "bad"]


def test_cross_validation_of_other_estimators() -> None:
    assert cross_val_score(FITTED["tags"][0], SENTENCES, TAGS, cv=2, error_score="raise").shape == (2,)
    assert cross_val_score(FITTED["graphs"][0], GRAPHS, LABELS, cv=2, error_score="raise").shape == (2,)
    folds = TimeSeriesSplit(2, test_size=4)
    estimator = FITTED["series"][0]
    scores = cross_val_score(estimator, WAVE, cv=folds, error_score="raise")
    fit = clone(estimator).fit(WAVE[:-4])
    assert scores[1] == pytest.approx(-np.abs(fit.predict()[:, 0] - WAVE[-4:]).mean())
    with pytest.raises(ValueError, match=r"TimeSeriesSplit\(test_size=4\)"):
        fit.score(WAVE)


def test_a_forecast_follows_the_series() -> None:
    estimator = fitted("series")[0]
    assert equal(estimator.predict(), estimator.predict(list(WAVE)))
    assert not equal(estimator.predict(), estimator.predict(WAVE[:100]))
    two = np.stack([WAVE, 5 + WAVE], 1)
    assert clone(estimator).fit(two).predict().shape == (4, 2)
    assert clone(estimator).fit({"a": WAVE.tolist(), "b": two[:, 1].tolist()}).predict().shape == (4, 2)


def test_a_forecast_reads_tables_with_dates() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"sine": WAVE}, index=pandas.date_range("2024-01-01", periods=len(WAVE), freq="h"))
    estimator = clone(FITTED["series"][0]).fit(table)
    assert estimator.targets_ == ("sine",) and estimator.predict().shape == (4, 1)
    error = np.abs(estimator.predict()[:2, 0] - WAVE[:2]).mean()
    assert estimator.score(table[:2]) == pytest.approx(-error)


@EVERY
def test_a_prediction_before_fit_is_refused(name: str) -> None:
    estimator, X, y = FITTED[name]
    for call in (lambda: estimator.predict(X), lambda: estimator.score(X, y)):
        with pytest.raises(NotFittedError):
            call()


@pytest.mark.parametrize(
    ("estimator", "X", "y", "message"),
    [
        (TextClassifier(), [], [], "found 0 examples"),
        (TextClassifier(), "a text", ["x"], "found str"),
        (TextClassifier(), {"text": TEXTS}, LABELS, "found dict"),
        (TextClassifier(), np.array([TEXTS]), LABELS, r"shape \(1, 40\)"),
        (TextClassifier(), ["a", None], ["x", "y"], r"X\[1\], found NoneType"),
        (TextClassifier(), TEXTS, LABELS[1:], "40 examples, and y has 39"),
        (TextClassifier(), TEXTS, ["good"] * 40, "1 class"),
        (TextClassifier(), TEXTS, None, "requires y"),
        (GraphClassifier(), TEXTS, LABELS, r"a graph as X\[0\], found str"),
        (SequenceTagger(), TEXTS, TAGS, r"a list of tokens as X\[0\], found str"),
        (SequenceTagger(), SENTENCES, [*TAGS[1:], ["DET"]], r"X\[29\] has 3 tokens, and y\[29\] has 1"),
        (SequenceTagger(), SENTENCES, TAGS[1:], "30 examples, and y has 29"),
        (Forecaster(), TEXTS, None, "array"),
        (Forecaster(), np.zeros((2, 3, 4)), None, "array"),
    ],
)
def test_unusable_data_are_value_errors(estimator: Any, X: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)


def test_a_wrong_setting_is_an_error_of_regard_and_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="stepps"):
        TextClassifier(runs=tmp_path, settings={"train": {"stepps": 3}}).fit(TEXTS, LABELS)
    assert [*tmp_path.iterdir()] == []


def test_generators_and_columns_are_texts() -> None:
    estimator, X, _ = fitted("texts")
    expected = estimator.predict(X)
    assert equal(estimator.predict(text for text in X), expected)
    pandas = pytest.importorskip("pandas")
    assert equal(estimator.predict(pandas.Series(X, index=range(100, 140))), expected)


def test_graphs_are_dicts_with_arrays_and_labels_inside_are_not_read() -> None:
    estimator, X, _ = fitted("graphs")
    arrays = [{"edges": np.array(graph["edges"]), "label": "other"} for graph in X]
    assert equal(estimator.predict_proba(arrays), estimator.predict_proba(X))
    assert equal(clone(estimator).fit(arrays, LABELS).predict_proba(X), estimator.predict_proba(X))
