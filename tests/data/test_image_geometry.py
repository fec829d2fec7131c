"""Images that are shifted and rotated: values that can be checked with a pencil."""

from __future__ import annotations

import numpy as np
import pytest

from regard.data.image_geometry import moved

IMAGE = np.arange(10, 100, 10, dtype=np.uint8).reshape(3, 3, 1)


def test_an_image_that_does_not_move_is_unchanged() -> None:
    assert moved(IMAGE, 0.0, 0.0, 0.0).tolist() == IMAGE.tolist()


@pytest.mark.parametrize(
    ("down", "right", "expected"),
    [
        (1, 0, [[0, 0, 0], [10, 20, 30], [40, 50, 60]]),
        (0, -1, [[20, 30, 0], [50, 60, 0], [80, 90, 0]]),
        (0, 0.5, [[5, 15, 25], [20, 45, 55], [35, 75, 85]]),
        (-0.5, 0, [[25, 35, 45], [55, 65, 75], [35, 40, 45]]),
        (5, 0, [[0, 0, 0]] * 3),
    ],
)
def test_pixels_from_outside_are_0(down: float, right: float, expected: list[list[int]]) -> None:
    assert np.abs(moved(IMAGE, 0.0, down, right)[..., 0] - np.array(expected)).max() <= 1  # halves are rounded


@pytest.mark.parametrize("quarters", [-1, 1, 2])
def test_a_quarter_turn_is_that_of_numpy(quarters: int) -> None:
    assert moved(IMAGE, 90.0 * quarters, 0.0, 0.0).tolist() == np.rot90(IMAGE, quarters).tolist()
