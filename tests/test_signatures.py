"""Types and shapes in signatures are checked while tests run: a wrong argument does not pass in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from jaxtyping import TypeCheckError

from regard.models.cross_entropy import projected_cross_entropy
from tests import shape_checks
from tests.shape_checks import EVERY, FIRST, UNCHECKED, unchecked


def test_a_wrong_argument_is_refused_by_name() -> None:
    with pytest.raises(TypeCheckError, match="'target'"):
        projected_cross_entropy(torch.zeros(2, 3), torch.zeros(5, 3), [0, 1], smoothing=0.0)  # type: ignore[arg-type]


def test_a_wrong_shape_is_refused_by_name() -> None:
    with pytest.raises(TypeCheckError, match="'target'"):
        projected_cross_entropy(torch.zeros(2, 3), torch.zeros(5, 3), torch.zeros(4, dtype=torch.int64), smoothing=0.0)


def test_calls_of_a_loop_are_checked_now_and_then() -> None:
    checked: list[int] = []
    call = shape_checks._of_some_calls(lambda number: None, lambda function: checked.append)
    last = FIRST + 2 * EVERY
    for number in range(1, last + 1):
        call(number)
    assert checked == [*range(1, FIRST + 1), *(n for n in range(FIRST + 1, last + 1) if n % EVERY == 0)]


def test_what_is_not_checked_is_there() -> None:
    assert all((Path(__file__).parent / name).exists() for name in UNCHECKED)


def test_a_block_without_the_check_ends() -> None:
    wrong = torch.zeros(2, 3), torch.zeros(5, 3), torch.zeros(2)
    with unchecked():
        with unchecked(), pytest.raises(RuntimeError):  # torch's own, far from the call
            projected_cross_entropy(*wrong, smoothing=0.0)
        with pytest.raises(RuntimeError):
            projected_cross_entropy(*wrong, smoothing=0.0)
    with pytest.raises(TypeCheckError, match="'target'"):
        projected_cross_entropy(*wrong, smoothing=0.0)
