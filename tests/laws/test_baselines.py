"""Laws of baselines: they learn rules and no noise, a saved one is the same, each value counts alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from regard.baselines.frames import FrameBaseline
from regard.baselines.linear import Targets, assign_folds, fit_linear, fit_temperature
from regard.baselines.pixels import PixelBaseline
from regard.baselines.text_pairs import PairBaseline
from regard.baselines.texts import TextBaseline
from regard.baselines.tokens import TokenBaseline
from regard.core.baseline import SavedBaseline
from regard.data.pictures import Picture
from regard.fields.frames import FrameSeries

WORDS = "good fine great poor dull awful film story a the long short".split()
Values = list[Any]


def texts(draw: np.random.Generator, rows: int) -> tuple[Values, np.ndarray]:
    """Texts whose class is that of their first word."""
    chosen = draw.integers(0, 6, rows)
    rest = [" ".join(draw.choice(WORDS[6:], draw.integers(0, 4))) for _ in range(rows)]
    return [(f"{WORDS[word]} {line}".strip(),) for word, line in zip(chosen, rest, strict=True)], chosen // 3


def pairs(draw: np.random.Generator, rows: int) -> tuple[Values, np.ndarray]:
    """Pairs of equal texts, and of texts without a word in common."""
    same = draw.integers(0, 2, rows)
    ones = [" ".join(draw.choice(WORDS[:6], 3)) for _ in range(rows)]
    others = [one if equal else " ".join(draw.choice(WORDS[6:], 3)) for one, equal in zip(ones, same, strict=True)]
    return list(zip(ones, others, strict=True)), same


def series(draw: np.random.Generator, rows: int) -> tuple[Values, np.ndarray]:
    """Series that rise or fall."""
    rises = draw.integers(0, 2, rows)
    lengths = draw.integers(2, 9, rows)
    made = [np.linspace(-1, 1, n)[:, None] * (1 if up else -1) for n, up in zip(lengths, rises, strict=True)]
    noisy = [np.hstack([one, draw.normal(size=one.shape)]).astype(np.float32) for one in made]
    return [FrameSeries(2, one.tobytes()) for one in noisy], rises


def sentences(draw: np.random.Generator, rows: int) -> tuple[Values, np.ndarray]:
    """Words whose tag is that of their ending or, for "run", of the word before."""
    values, tags = [], []
    for _ in range(rows):
        words: list[str] = []
        for place in range(draw.integers(1, 5)):
            word = str(draw.choice(["walked", "talked", "dog", "cat", "run", "the"]))
            words.append(word)
            before = words[place - 1] if place else ""
            tags.append({"the": 2, "run": 0 if before == "the" else 1}.get(word, int(word.endswith("ed"))))
        values.append(tuple(words))
    return values, np.array(tags)


Make = Callable[[np.random.Generator, int], tuple[Values, np.ndarray]]


def pictures(random: np.random.Generator, rows: int) -> tuple[Values, Any]:
    """Images of 20 × 20 pixels, larger than the baseline reads, with a brighter left or right half."""
    targets = random.integers(0, 2, rows)
    pixels = random.integers(0, 200, (rows, 20, 20, 1))
    pixels[np.arange(rows)[:, None], :, np.arange(10) + 10 * targets[:, None]] += 40
    return [Picture.of(image.astype(np.uint8)) for image in pixels], targets


CASES: dict[str, tuple[Callable[[], Any], Make, int]] = {
    "texts": (TextBaseline, texts, 2),
    "pairs": (PairBaseline, pairs, 2),
    "frames": (FrameBaseline, series, 2),
    "pixels": (PixelBaseline, pictures, 2),
    "tokens": (TokenBaseline, sentences, 3),
}
KINDS = pytest.mark.parametrize("kind", CASES)


def learned(kind: str, rows: int = 120) -> tuple[Any, Values]:
    """A baseline, and the values that it was learned from."""
    make, draw, outputs = CASES[kind]
    values, targets = draw(np.random.default_rng(1), rows)
    model = make()
    model.learn([values], targets, np.ones(len(targets)), outputs)
    return model, values


@KINDS
def test_a_rule_is_learned(kind: str) -> None:
    model, _ = learned(kind)
    values, unseen = CASES[kind][1](np.random.default_rng(2), 100)
    assert (model.outputs([values]).argmax(1) == unseen).mean() >= 0.9


@KINDS
def test_random_labels_are_predicted_with_little_confidence(kind: str) -> None:
    """The penalty and the factor are chosen on held-out rows: a model that was not would be confident and wrong."""
    make, draw, outputs = CASES[kind]
    values, targets = draw(np.random.default_rng(1), 300)
    random, model = np.random.default_rng(3).integers(0, outputs, len(targets)), make()
    model.learn([values], random, np.ones(len(targets)), outputs)
    unseen, targets = draw(np.random.default_rng(4), 300)
    random = np.random.default_rng(5).integers(0, outputs, len(targets))
    assert Targets.of(random, outputs, np.ones(len(random))).loss(model.outputs([unseen])) < np.log(outputs) + 0.1


@KINDS
def test_a_saved_baseline_is_the_same(kind: str) -> None:
    model, values = learned(kind)
    saved = model.save()
    opened = CASES[kind][0]().open(SavedBaseline(dict(saved.arrays), dict(saved.settings)))
    np.testing.assert_allclose(opened.outputs([values]), model.outputs([values]), atol=1e-3)
    assert opened.description == model.description and opened.outputs([[]]).shape == (0, CASES[kind][2])


@KINDS
def test_outputs_of_a_value_depend_on_it_alone(kind: str) -> None:
    model, values = learned(kind)
    alone = np.concatenate([model.outputs([[value]]) for value in values[:20]])
    np.testing.assert_allclose(alone, model.outputs([values[:20]]), atol=1e-9)
    assert len(np.unique(alone.round(6), axis=0)) > 1


@KINDS
def test_fitting_is_a_function_of_the_data(kind: str) -> None:
    one, other = learned(kind), learned(kind)
    np.testing.assert_array_equal(one[0].outputs([one[1]]), other[0].outputs([one[1]]))


@KINDS
def test_rows_without_a_weight_are_not_learned_from(kind: str) -> None:
    make, draw, outputs = CASES[kind]
    values, targets = draw(np.random.default_rng(1), 100)
    weights = (np.arange(len(targets)) % 2).astype(float)
    wrong = np.where(weights > 0, targets, (targets + 1) % outputs)
    models = [make(), make()]
    for model, labels in zip(models, (targets, wrong), strict=True):
        model.learn([values], labels, weights, outputs)
    np.testing.assert_array_equal(models[0].outputs([values]), models[1].outputs([values]))


DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a weight is missing": lambda arrays: arrays.pop("weights"),
    "weights of too many features": lambda arrays: double(arrays, "weights", axis=1),
    "a bias of too many outputs": lambda arrays: double(arrays, "bias", axis=0),
    "a bias of another shape": lambda arrays: arrays.update(bias=arrays["bias"][:, None]),
    "a weight that is no number": lambda arrays: spoil(arrays, "weights", np.nan),
    "an infinite bias": lambda arrays: spoil(arrays, "bias", np.inf),
}
MORE_DAMAGES: dict[tuple[str, str], Callable[[dict[str, Any]], Any]] = {
    ("frames", "a mean that is no number"): lambda arrays: spoil(arrays, "scale", np.nan),
    ("frames", "a deviation of 0"): lambda arrays: spoil(arrays, "scale", 0.0),
    ("pairs", "a deviation of 0"): lambda arrays: spoil(arrays, "scale", 0.0),
    ("tokens", "buckets in another order"): lambda arrays: arrays.update(used=arrays["used"][::-1]),
    ("texts", "buckets in another order"): lambda arrays: arrays.update({"words.used": arrays["words.used"][::-1]}),
    ("texts", "a frequency that is no number"): lambda arrays: spoil(arrays, "words.idf", np.nan),
}


def double(arrays: dict[str, Any], name: str, axis: int) -> None:
    arrays[name] = np.concatenate([arrays[name], arrays[name]], axis)


def spoil(arrays: dict[str, Any], name: str, value: float) -> None:
    arrays[name] = arrays[name].copy()
    arrays[name][..., -1].fill(value) if arrays[name].ndim > 1 else arrays[name][-1:].fill(value)


@pytest.mark.parametrize(("kind", "damage"), [*((kind, each) for kind in CASES for each in DAMAGES), *MORE_DAMAGES])
def test_damaged_arrays_are_refused(kind: str, damage: str) -> None:
    saved = learned(kind, rows=30)[0].save()
    arrays = dict(saved.arrays)
    CASES[kind][0]().open(SavedBaseline(arrays, saved.settings))
    (MORE_DAMAGES.get((kind, damage)) or DAMAGES[damage])(arrays)
    with pytest.raises((ValueError, LookupError)):
        CASES[kind][0]().open(SavedBaseline(arrays, saved.settings))


@pytest.mark.parametrize("kind", ["numbers", "labels", "one class", "a class of one row"])
def test_other_targets(kind: str) -> None:
    values, classes = texts(np.random.default_rng(1), 80)
    targets: Any = {
        "numbers": classes * 2.0 - 1, "labels": np.stack([classes, 1 - classes], 1).astype(float),
        "one class": np.zeros(80, int), "a class of one row": np.where(np.arange(80) == 7, 2, classes),
    }[kind]  # fmt: skip
    outputs = {"numbers": 1, "labels": 2}.get(kind, 3)
    model = TextBaseline()
    model.learn([values], targets, np.ones(80), outputs)
    found = model.outputs([values])
    assert found.shape == (80, outputs) and np.isfinite(found).all()
    if kind == "numbers":
        assert np.corrcoef(found[:, 0], targets)[0, 1] > 0.9 and "ridge" in model.description
    elif kind == "labels":
        assert ((found > 0) == (targets > 0)).mean() > 0.95
    else:
        assert (found.argmax(1) == targets).mean() > 0.9


def test_equal_values_are_in_one_fold_and_classes_in_all() -> None:
    keys = [f"text {row % 50}" for row in range(200)]
    targets = np.array([row % 50 % 2 for row in range(200)])
    fold = assign_folds(keys, targets)
    assert all(len(set(fold[row::50])) == 1 for row in range(50))
    for label in (0, 1):
        assert set(fold[targets == label]) == set(range(5))


def test_the_factor_of_overconfident_outputs_is_below_one() -> None:
    draw = np.random.default_rng(1)
    classes = draw.integers(0, 2, 500)
    said = np.where(draw.random(500) < 0.8, classes, 1 - classes)  # right in four of five
    outputs = np.stack([5 - 10.0 * said, 10.0 * said - 5], 1)
    factor = fit_temperature(outputs, Targets.of(classes, 2, np.ones(500)))
    assert factor * 10 == pytest.approx(np.log(4), rel=0.15)


def test_a_few_outputs_without_an_error_do_not_mean_certainty() -> None:
    """After 8 of 8, one more uniform row gives the lowest loss at about 1 in 17 for the other class."""
    classes = np.arange(8) % 2
    outputs = np.stack([0.5 - classes, classes - 0.5], 1)
    factor = fit_temperature(outputs, Targets.of(classes, 2, np.ones(8)))
    assert 1 / (1 + np.exp(-factor)) == pytest.approx(1 - 1 / 18, abs=0.01)


def test_logistic_regression_is_that_of_scikit_learn() -> None:
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    draw = np.random.default_rng(1)
    features, targets = draw.normal(size=(90, 4)), draw.integers(0, 3, 90)
    linear = fit_linear(csr_matrix(features), Targets.of(targets, 3, np.ones(90)), 1.0)
    wanted = LogisticRegression(C=1.0).fit(features, targets).decision_function(features)
    np.testing.assert_allclose(linear.outputs(csr_matrix(features)), wanted, atol=1e-4)
