"""Measures of heads, by numbers that a pencil checks."""

from __future__ import annotations

import math

import pytest
import torch

from regard.inspection.measures import measures, rollout
from regard.inspection.observation_document import kind_of


def test_a_head_that_looks_at_all_alike() -> None:
    found = measures(torch.full((1, 3, 3), 1 / 3), "encoder")
    assert set(found) == {"entropy", "distance", "diagonality", "largest", "end"}
    assert found["entropy"] == pytest.approx([math.log(3)], abs=1e-5)
    assert found["distance"] == pytest.approx([(3 + 2 + 3) / 9], abs=1e-5)  # |i − j| of the nine cells
    assert found["diagonality"] == pytest.approx([1 - (8 / 9) / (5 / 3)], abs=1e-5)  # at most 2, 1, 2 away
    assert found["largest"] == found["end"] == pytest.approx([1 / 3], abs=1e-5)


def test_a_straight_line_is_one_whatever_the_lengths() -> None:
    assert measures(torch.eye(4)[None], "encoder")["diagonality"] == [1.0]
    slanted = torch.eye(5)[[0, 2, 4]][None]  # three pieces said of five read
    found = measures(slanted, "source")
    assert found["diagonality"] == [1.0] and found["distance"] == [0.0] and found["entropy"] == [0.0]


def test_the_end_is_the_begin_symbol_of_a_decoder() -> None:
    first, last = torch.zeros(1, 3, 3), torch.zeros(1, 3, 3)
    first[:, :, 0] = last[:, :, -1] = 1
    assert [measures(x, kind)["end"] for x, kind in ((first, "decoder"), (last, "decoder"))] == [[1.0], [0.0]]
    assert [measures(x, kind)["end"] for x, kind in ((first, "source"), (last, "source"))] == [[0.0], [1.0]]


def test_one_piece_is_no_distance_away() -> None:
    assert measures(torch.ones(1, 1, 1), "source")["diagonality"] == [1.0]


def test_rollout_by_hand() -> None:
    """Layers that swap two positions: ½ I + ½ P, twice, is ½ I + ½ P again."""
    swap = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    torch.testing.assert_close(rollout([swap, swap]), torch.full((2, 2), 0.5))
    back = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    torch.testing.assert_close(rollout([back, swap]), torch.tensor([[0.75, 0.25], [0.75, 0.25]]))
    torch.testing.assert_close(rollout([swap, back]), torch.tensor([[0.5, 0.5], [0.5, 0.5]]))


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("encoder.0.self", "encoder"), ("decoder.1.self", "decoder"), ("decoder.1.source", "source"),
        ("decoder.source", "source"), ("copying.source", "source"), ("encoder.2.self.score", "encoder"),
        ("encoder.0.edges", None), ("pooling", None),
    ],
)  # fmt: skip
def test_the_place_of_an_attention_is_how_it_is_measured(place: str, kind: str | None) -> None:
    assert kind_of(place) == kind
