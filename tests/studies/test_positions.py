"""The study of positions: it holds, and each half of it can fail."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.studies import positions
from regard.studies.study import ignore_report


def failed(**options: Any) -> list[int]:
    """Which criteria, by their place."""
    found = positions.run(seed=1, minimal=True, report=ignore_report, **options)
    return [place for place, criterion in enumerate(found.criteria) if not criterion.holds]


def test_it_holds() -> None:
    assert failed() == []


def test_it_fails_where_the_encoder_has_positions_after_all() -> None:
    assert failed(kinds={"none": "sinusoidal", "learned": "learned"}) == [0]


def test_it_fails_where_a_kind_of_position_says_nothing() -> None:
    assert failed(kinds={"none": "none", "rotary": "none"}) == [1]


def test_it_fails_where_sines_do_not_turn_evenly() -> None:
    def bent(position: Tensor) -> Tensor:
        return positions.sines(position * position)

    assert failed(encode=bent) == [2, 3]


def test_it_fails_in_single_precision() -> None:
    assert failed(encode=lambda position: positions.sines(position).float().double()) == [2, 3]


def test_the_turn_by_hand() -> None:
    """Position 0 is (0, 1) in each pair; k further it is (sin kω, cos kω)."""
    here = positions.sines(torch.tensor([0, 3]))
    assert here[0, :4].tolist() == [0.0, 1.0, 0.0, 1.0]
    torch.testing.assert_close(here[1, :2], torch.tensor([3.0, 3.0], dtype=torch.float64).sin().where(
        torch.tensor([True, False]), torch.tensor(3.0, dtype=torch.float64).cos()))  # fmt: skip
