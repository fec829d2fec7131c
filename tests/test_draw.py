"""Draws from limited rows of scores in C, against torch in 64 bits: for every instruction set of this machine."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from regard.native import passes
from regard.native.draw import drawn_tokens
from regard.native.library import find
from regard.search.choice import draw_limited, draw_tokens, limit_scores

quickest = find(choice="").library
if quickest is None:
    pytest.skip(f"needs the kernels: {find(choice='').reason}", allow_module_level=True)
Limits = tuple[int | None, float | None, float | None]
LIMITS: list[Limits] = [
    (None, None, None), (1, None, None), (7, None, None), (10**6, None, None), (None, 1e-9, None), (None, 0.37, None),
    (None, 0.93, None), (None, 1.0, None), (None, None, 0.0), (None, None, 0.2), (None, None, 1.0), (5, 0.61, 0.3),
    (40, 0.83, 0.05),
]  # fmt: skip


@pytest.fixture(params=quickest.sets, autouse=True)
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    found = find(choice=request.param).library
    monkeypatch.setattr(passes, "library", lambda: found)
    yield request.param


def rows(count: int, types: int, seed: int) -> tuple[Tensor, Tensor]:
    """Scores and quantiles: rows of distinct numbers, of few numbers that are often equal, and with forbidden types."""
    random = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(count, types, generator=random)
    scores[1::3] = scores[1::3].round()
    scores[2::3, ::2] = -math.inf
    scores[2::3, types // 2] = -1.5
    return scores, torch.rand(count, dtype=torch.float64, generator=random)


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("types", [1, 5, 16, 65, 700])
def test_a_draw_is_that_of_limited_scores(types: int, limits: Limits) -> None:
    scores, uniform = rows(120, types, seed=types)
    found = drawn_tokens(scores, uniform, *limits)
    wanted = draw_tokens(limit_scores(scores.double(), *limits), uniform)
    assert found is not None and torch.equal(found, wanted)


def test_the_likeliest_until_a_probability_by_hand() -> None:
    """p = 1/2, 1/8, 1/8, 1/8, 1/8: three quarters take the first and two of those that are equal, the first ones."""
    scores = torch.tensor([0.125, 0.5, 0.125, 0.125, 0.125]).log().expand(60, 5).contiguous()
    uniform = (torch.arange(60, dtype=torch.float64) + 0.5) / 60
    found = drawn_tokens(scores, uniform, None, 0.74, None)
    assert found is not None and torch.bincount(found, minlength=5).tolist() == [10, 40, 10, 0, 0]


def test_a_quantile_that_a_type_just_reaches_is_the_next_ones() -> None:
    found = drawn_tokens(torch.zeros(3, 4), torch.tensor([0.0, 0.25, 0.5], dtype=torch.float64), None, None, None)
    assert found is not None and found.tolist() == [0, 1, 2]


@pytest.mark.parametrize("number", [0.0, 1 - 2**-53])
def test_what_is_forbidden_is_not_drawn_at_either_end(number: float) -> None:
    scores = torch.full((300, 40), -math.inf)
    scores[torch.arange(300), torch.arange(300) % 37 + 1] = torch.randn(300)
    found = drawn_tokens(scores, torch.full((300,), number, dtype=torch.float64), 9, 0.9, 0.1)
    assert found is not None and torch.equal(found, torch.arange(300) % 37 + 1)


@pytest.mark.parametrize("score", [-math.inf, math.nan, math.inf])
def test_a_row_without_numbers_gives_a_type(score: float) -> None:
    found = drawn_tokens(torch.full((2, 33), score), torch.tensor([0.0, 0.9], dtype=torch.float64), 3, 0.5, 0.5)
    assert found is not None and 0 <= int(found.min()) <= int(found.max()) < 33


def test_draws_are_the_same_alone_and_by_two_threads() -> None:
    scores, uniform = rows(96, 1000, seed=1)
    assert scores.numel() > passes.MAX_SINGLE_THREAD
    alone = [draw_limited(scores[row : row + 1], uniform[row : row + 1], 300, 0.9, 0.01) for row in range(96)]
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert torch.equal(draw_limited(scores, uniform, 300, 0.9, 0.01), torch.cat(alone))
    finally:
        torch.set_num_threads(threads)


def test_torch_draws_what_the_kernels_do_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, uniform = rows(9, 24, seed=2)
    assert drawn_tokens(scores.double(), uniform, 3, None, None) is None
    assert drawn_tokens(scores.T.contiguous().T, uniform, 3, None, None) is None
    assert drawn_tokens(scores, uniform.float(), 3, None, None) is None
    assert drawn_tokens(scores, uniform[:-1], 3, None, None) is None
    by_kernels = draw_limited(scores, uniform, 3, 0.8)
    monkeypatch.setattr(passes, "library", lambda: None)
    assert drawn_tokens(scores, uniform, 3, None, None) is None
    assert torch.equal(draw_limited(scores, uniform, 3, 0.8), by_kernels)
