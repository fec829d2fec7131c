"""The baseline of next items: its tables by hand, its weights by likelihood, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.baselines.items import ItemBaseline, _fit_mixture
from regard.core.baseline import SavedBaseline

SESSIONS = [("a", "b"), ("a", "b"), ("a", "c", "a")]
NUMBERS = {"a": 1, "b": 2, "c": 3}


def learned(sessions: Any = SESSIONS, types: int = 4) -> ItemBaseline:
    model = ItemBaseline()
    targets = np.array([NUMBERS[item] for session in sessions for item in session])
    model.learn([sessions], targets, np.ones(len(targets)), types)
    return model


def probabilities(model: ItemBaseline, *session: str) -> np.ndarray:
    """Those of the last item."""
    return np.exp(model.outputs([[session]])[-1])


def test_the_tables_are_counts() -> None:
    model = learned()
    model.mixture = np.array([0.0, 1, 0, 0, 0]) + 1e-9
    np.testing.assert_allclose(probabilities(model, "a", "c"), [0, 0, 2 / 3, 1 / 3], atol=1e-6)
    model.mixture = np.array([1.0, 0, 0, 0, 0])
    np.testing.assert_allclose(probabilities(model, "a", "c"), np.array([1, 5, 3, 2]) / 11)
    model.mixture = np.array([0.5, 0.25, 0.25, 0, 0])  # b was followed by nothing, so its table counts for nothing
    np.testing.assert_allclose(probabilities(model, "b", "c"), np.array([1, 5, 3, 2]) / 11)
    np.testing.assert_allclose(probabilities(model, "unknown", "c"), np.array([1, 5, 3, 2]) / 11)


def test_an_output_does_not_know_its_own_item_or_later_ones() -> None:
    model = learned()
    one, other = (model.outputs([[session]]) for session in (("a", "b", "c"), ("a", "b", "a")))
    np.testing.assert_array_equal(one, other)
    together = model.outputs([[("a", "b"), ("c", "a", "b")]])
    np.testing.assert_allclose(together[2:], model.outputs([[("c", "a", "b")]]))
    assert model.outputs([[]]).shape == (0, 4) and model.outputs([[()]]).shape == (0, 4)


def test_a_table_that_predicts_gets_the_weight() -> None:
    """The item before the last determines the next one; the last item says nothing."""
    draw = np.random.default_rng(1)
    rows = [[*draw.integers(1, 4, 2)] for _ in range(60)]
    for row in rows:
        row += [row[number % 2] for number in range(6)]
    names = {number: name for name, number in NUMBERS.items()}
    model = learned([tuple(names[int(number)] for number in row) for row in rows])
    assert model.mixture[2] + model.mixture[4] > 0.9
    assert probabilities(model, "b", "c", "a")[2] > 0.9  # the last item is not read: it is the one predicted


def test_the_weights_maximize_the_likelihood() -> None:
    draw = np.random.default_rng(2)
    table = draw.random((500, 3))
    table[draw.random((500, 3)) < 0.3] = np.nan
    table[:, 0] = draw.random(500)

    def likelihood(mixture: np.ndarray) -> float:
        known = ~np.isnan(table)
        return float(np.log((np.nan_to_num(table) * mixture).sum(1) / (known * mixture).sum(1)).mean())

    found = _fit_mixture(table)
    assert found.sum() == pytest.approx(1)
    for _ in range(50):
        assert likelihood(found) >= likelihood(draw.dirichlet(np.ones(3))) - 1e-4


def test_a_saved_one_is_the_same() -> None:
    model = learned()
    opened = ItemBaseline().open(model.save())
    np.testing.assert_array_equal(opened.outputs([SESSIONS]), model.outputs([SESSIONS]))


DAMAGES: list[dict[str, np.ndarray]] = [
    {"popularity": np.zeros(4)},
    {"mixture": np.ones(3)},
    {"numbers": np.array([1, 2, 9])},
    {"starts1": np.array([0, 9, 9, 9, 9])},
    {"columns2": np.array([7])},
    {"counts1": np.array([-1, 1, 1, 1])},
    {"keys": np.zeros(2, np.int64)},
]


@pytest.mark.parametrize("change", DAMAGES)
def test_damaged_arrays_are_refused(change: dict[str, np.ndarray]) -> None:
    arrays = dict(learned().save().arrays)
    with pytest.raises(ValueError):
        ItemBaseline().open(SavedBaseline(arrays | change, {}))
