"""Permutations by place: each number once, whatever the size, and as good as drawn."""

from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import computed_order
from regard.data.computed_order import Permutation

SIZES = [
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    13,
    16,
    31,
    61,
    64,
    65,
    127,
    128,
    997,
    1023,
    1024,
    1025,
    4096,
    4097,
    7919,
    1 << 16,
    104729,
]


@pytest.fixture(params=["table", "network"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sizes by a table, as they are, and by the network."""
    if request.param == "network":
        monkeypatch.setattr(computed_order, "LISTED", 1)


@pytest.mark.parametrize("size", SIZES)
def test_each_number_comes_once(size: int) -> None:
    for key in ((0, 0), (1, 0), (1, 7, 3)):
        assert np.array_equal(np.sort(Permutation(size, *key)(np.arange(size))), np.arange(size))


@given(st.integers(1, 10**12), st.integers(0, 2**64), st.integers(0, 10**6), st.data())
def test_places_by_themselves_are_the_sequence(size: int, seed: int, epoch: int, data: st.DataObject) -> None:
    places = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20)))
    one = Permutation(size, seed, epoch)
    together = one(places)
    assert together.min() >= 0 and together.max() < size
    assert together.tolist() == [
        int(Permutation(size, seed, epoch)(places[at : at + 1])[0]) for at in range(len(places))
    ]
    assert len(set(together.tolist())) == len(set(places.tolist()))


@pytest.mark.parametrize("size", [50, 1025, 104729])
def test_another_key_is_another_order(size: int) -> None:
    orders = [Permutation(size, *key)(np.arange(size)) for key in ((1, 0), (1, 1), (2, 0), (0, 1), (1, 0, 0, 1))]
    fixed = [float((one == two).mean()) for at, one in enumerate(orders) for two in orders[:at]]
    assert max(fixed) < 0.2


def chi_square(counts: np.ndarray) -> float:
    """Deviations from even counts in standard deviations of χ²."""
    expected, freedom = counts.sum() / counts.size, counts.size - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))


def drawn(size: int, keys: int) -> Iterator[np.ndarray]:
    return islice((Permutation(size, 9, key)(np.arange(size)) for key in count()), keys)


@pytest.mark.parametrize("size", [5, 16, 23, 40])
def test_each_number_is_as_often_in_each_place(size: int) -> None:
    counts = np.zeros((size, size))
    for order in drawn(size, 1500):
        counts[np.arange(size), order] += 1
    assert chi_square(counts) < 5


def test_neighbors_do_not_stay_together() -> None:
    """What follows what: differences of numbers in neighboring places, of one long order, are even."""
    size = 1 << 16
    order = Permutation(size, 4, 2)(np.arange(size))
    assert abs(chi_square(np.bincount(np.diff(order) % size * 64 // size, minlength=64))) < 5
    assert abs(chi_square(np.histogram2d(np.arange(size), order, bins=32)[0])) < 5
