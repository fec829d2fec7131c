"""The study of heads: costs are counted, neighbors are the right ones, and each criterion can fail."""

from __future__ import annotations

import pytest
import torch

from regard.studies import heads
from regard.studies.study import ignore_report


def verdict(monkeypatch: pytest.MonkeyPatch, accuracies: dict[int, list[float]], **costs: int) -> list[bool]:
    given = {number: iter(each) for number, each in accuracies.items()}
    monkeypatch.setattr(heads, "_accuracy", lambda number, **rest: next(given[number]))
    found = heads.run(seed=1, minimal=True, report=ignore_report, heads=tuple(accuracies))
    return [criterion.holds for criterion in found.criteria]


def test_more_heads_must_be_better_by_more_than_seeds_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(monkeypatch, {1: [0.3, 0.32], 4: [0.9, 0.92]}) == [True, True, True]
    assert verdict(monkeypatch, {1: [0.3, 0.32], 4: [0.2, 0.92]}) == [True, True, False]
    assert verdict(monkeypatch, {1: [0.9, 0.92], 4: [0.3, 0.32]}) == [True, True, False]


def test_a_cost_that_differs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs that grow with the heads, as where each had the whole width."""
    monkeypatch.setattr(heads, "_cost", lambda number: heads.Cost(100 * number, 1000 * number, 32 * number))
    assert verdict(monkeypatch, {1: [0.3, 0.3], 4: [0.9, 0.9]}) == [False, False, True]


def test_parameters_and_operations_by_hand() -> None:
    """Four projections, the feed-forward with biases, three norms, embedding and read-out, of width d = 64."""
    d, types, length = heads.WIDTH, heads.TYPES, heads.LENGTH
    cost = heads._cost(4)
    assert cost.parameters == 4 * d * d + 2 * 2 * d * d + 3 * d + 3 * 2 * d + types * d + (d + 1) * 4 * types
    products = length * (4 * d * d + 4 * d * d) + 2 * length * length * d + (length - 4) * d * 4 * types
    assert cost.operations == 2 * products
    assert cost.biases == 4 * 32


def test_neighbors_are_those_at_the_offsets() -> None:
    words, neighbors = heads._words(3)
    assert neighbors.shape == (3, 12, 4)
    place = 5
    expected = torch.stack([words[:, place - 2], words[:, place - 1], words[:, place + 1], words[:, place + 2]], 1)
    assert torch.equal(neighbors[:, place - 2], expected)
