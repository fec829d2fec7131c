"""The study of Table 1: it holds, wrong layers are found out, and its instruments read right."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.mask import Padding, Window
from regard.studies import costs, layers
from regard.studies.layers import LAYERS, RADIUS, MeasuredLayer, attend
from regard.studies.study import ignore_report


def failed(**changed: MeasuredLayer) -> list[int]:
    """Which criteria, by their place, with the layers changed."""
    found = layers.run(seed=1, minimal=True, report=ignore_report, layers=LAYERS | changed)
    return [place for place, criterion in enumerate(found.criteria) if not criterion.holds]


def test_it_holds() -> None:
    assert failed() == []


def test_a_mask_saves_no_operations() -> None:
    """Restricted attention that computes all energies and masks most has the right path, and the wrong cost."""
    masked = LAYERS["restricted"]._replace(make=lambda d, radius: attend(Window(radius) & Padding()))
    assert failed(restricted=masked) == [0, 2]


def test_a_band_of_the_wrong_width_is_found() -> None:
    wide = LAYERS["restricted"]._replace(make=lambda d, radius: layers.band(radius + 1))
    assert {4, 5} <= set(failed(restricted=wide))


def test_a_convolution_step_by_step_is_no_parallel_layer() -> None:
    def make(d: int, kernel: int) -> costs.Function:
        def forward(x: Tensor) -> Tensor:
            for _ in range(x.shape[1]):
                x = layers.convolve(d, kernel)(x)
            return x

        return forward

    slow = LAYERS["convolutional"]._replace(make=make, step=lambda d, kernel, number: layers.convolve(d, kernel))
    assert 3 in failed(convolutional=slow)


def test_operations_are_counted() -> None:
    matrix = torch.randn(5, 7)
    assert costs.operations(lambda x: x @ matrix, 3, 5) == 2 * 3 * 5 * 7


def test_products_in_a_row_follow_what_depends() -> None:
    matrix = torch.randn(4, 4)

    def forward(x: Tensor) -> Tensor:
        beside = (x @ matrix) + (x @ matrix)  # side by side: one
        return torch.relu(beside.transpose(1, 2).transpose(1, 2) @ matrix) + x

    assert costs.products_in_a_row(forward, 3, 4) == 2
    assert costs.products_in_a_row(lambda x: x + 1, 3, 4) == 0


def test_what_sees_what() -> None:
    def shift(x: Tensor) -> Tensor:
        return torch.cat([x[:, :1], x[:, :-1]], 1)

    assert costs.sees(shift, 3, 2).tolist() == [[True, False, False], [True, False, False], [False, True, False]]


def test_bytes_are_counted_once() -> None:
    assert costs.bytes_kept(lambda x: x * x, 2, 3) == 2 * 3 * 4
    assert costs.bytes_kept(lambda x: x + 1, 2, 3) == 0


def test_an_exponent_by_hand() -> None:
    assert abs(costs.exponent([1, 2, 4], [3, 12, 48]) - 2) < 1e-12


def test_a_path_that_does_not_exist_is_not_short() -> None:
    assert layers._path(LAYERS["convolutional"]._replace(make=lambda d, size: lambda x: 2 * x), 4) == 8
    assert layers._path(LAYERS["restricted"], 2 * RADIUS + 1) == 2
