"""Positions: sinusoids are rotated by a step, and without them an encoder knows no order."""

from __future__ import annotations

import math

import pytest
import torch

from regard.attention.position import LearnedPosition, SinusoidalPosition, sinusoids
from regard.models.build import build
from regard.models.configuration import ModelConfig

WIDTH = 16


def rotation(step: int, width: int) -> torch.Tensor:
    """M_k: per pair [[cos ω k, sin ω k], [−sin ω k, cos ω k]] on (sin, cos)."""
    whole = torch.zeros(width, width, dtype=torch.float64)
    for i in range(width // 2):
        angle = step * 10000.0 ** (-2 * i / width)
        cos, sin = math.cos(angle), math.sin(angle)
        whole[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[cos, sin], [-sin, cos]])
    return whole


@pytest.mark.parametrize("step", [1, 7, 50])
def test_a_step_is_a_linear_map_that_depends_on_the_step_alone(step):
    here = sinusoids(torch.arange(40), WIDTH).double()
    there = sinusoids(torch.arange(40) + step, WIDTH).double()
    torch.testing.assert_close(here @ rotation(step, WIDTH).T, there, rtol=0, atol=2e-7)


def test_first_numbers():
    """PE(0) = (0, 1, 0, 1, …); PE(1) = (sin 1, cos 1, sin 0.01, cos 0.01) at width 4: 10000^(−2/4) = 0.01."""
    expected = [[0, 1, 0, 1], [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]]
    torch.testing.assert_close(sinusoids(torch.arange(2), 4), torch.tensor(expected))


def test_length_and_products_depend_on_distance_alone():
    table = sinusoids(torch.arange(30), WIDTH).double()
    products = table @ table.T
    frequencies = 10000.0 ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    distance = (torch.arange(30)[:, None] - torch.arange(30)).double()
    expected = torch.cos(distance[..., None] * frequencies).sum(-1)
    torch.testing.assert_close(products, expected, rtol=0, atol=1e-5)
    assert float(products[3, 3]) == pytest.approx(WIDTH / 2, abs=1e-5)


def test_far_positions_are_exact_and_beyond_the_table():
    position = SinusoidalPosition(WIDTH, table=8)
    far = torch.tensor([[7, 8, 100_000]])
    expected = sinusoids(far, WIDTH)
    assert torch.equal(position(torch.zeros(1, 3, WIDTH), far), expected)
    assert float(expected[0, 2, 0]) == pytest.approx(math.sin(100_000), abs=1e-7)


def test_learned_positions_end():
    position = LearnedPosition(4, longest=3)
    assert torch.equal(position(torch.zeros(1, 1, 4), torch.tensor([[2]]))[0, 0], position.table[2])
    with pytest.raises(ValueError, match="position 3 is beyond the learned table of 3 rows"):
        position(torch.zeros(1, 1, 4), torch.tensor([[3]]))


def encode(position: str, tokens: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=2, decoder_layers=1, width=16, feed_forward=8, heads=2, position=position)
    model = build(config, source_types=20, target_types=20).double().eval()
    return model.encoder(tokens, torch.ones_like(tokens, dtype=torch.bool)).states


def test_without_positions_the_encoder_is_permutation_equivariant():
    tokens, order = torch.arange(4, 10)[None], torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(
        encode("none", tokens[:, order]), encode("none", tokens)[:, order], rtol=1e-10, atol=1e-10
    )
    moved = encode("sinusoidal", tokens[:, order]) - encode("sinusoidal", tokens)[:, order]
    assert moved.abs().max() > 0.01, "with positions it is not: the test can fail"
