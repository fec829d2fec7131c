"""Drawn tokens against the distribution they are said to come from, by Pearson's χ² with fixed seeds.

By ``row_search`` over a plain step, and by ``Decoding`` over a model that says the same log probabilities everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.config.settings import SearchConfig
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, UNKNOWN
from regard.inference.decoding import SYMBOLS, Decoding
from regard.inference.prompt_decoding import SYMBOLS as SUPPRESSED
from regard.inference.run_search import inputs_of
from regard.inference.search_model import choice_of
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.search.batch_search import in_order, search
from regard.search.choice import Chooser, TokenChoice, choice_probabilities, choose_tokens
from regard.search.draws import Draws
from regard.search.rows import row_search
from regard.tasks.language_model.config import GenerateConfig

DRAWS = 4000
TYPES = 10
# Those that are never drawn are the most probable, and END is one like others.
P = torch.tensor([0.1, 0.05, 0.2, 0.12, 0.08, 0.16, 0.02, 0.18, 0.04, 0.05], dtype=torch.float64)
ALLOWED = [token for token in range(TYPES) if token not in (PAD, BEGIN)]


def drawn_from_step(seed: int, **options: Any) -> list[int]:
    def step(tokens: Tensor, state: tuple[()]) -> tuple[Tensor, tuple[()]]:
        return P.log().float().expand(*tokens.shape, -1), state

    longest = torch.ones(DRAWS, dtype=torch.int64)
    choice = TokenChoice(**{"temperature": 1.0, **options})
    found = row_search(step, (), SYMBOLS, max_lengths=longest, choice=choice, seed=seed)
    return [hypothesis.tokens[0] if hypothesis.tokens else END for hypothesis in found]


@cache
def decoding() -> Decoding:
    """Of a model whose output bias alone speaks."""
    sizes = dict(layers=1, width=4, feed_forward=4, heads=1)
    model = build(ModelConfig(**sizes, output_bias=True, share="none"), source_types=TYPES, target_types=TYPES).eval()
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.copy_(P.log())
    return Decoding(model, "reference")


def drawn_from_model(seed: int, *, temperature: float = 1.0, **options: Any) -> list[int]:
    settings = SearchConfig(temperature=temperature, nbest=DRAWS, max_length=1, seed=seed, **options)
    opened = decoding().open([0], inputs_of([[5]], settings), settings)
    (found,) = in_order(search(decoding().step, opened), 1)
    return [hypothesis.tokens[0] if hypothesis.tokens else END for hypothesis in found]


def drawn_from_generation(seed: int, dtype: torch.dtype = torch.float32, **options: Any) -> list[int]:
    """By the kernels where they are, which take 32 bits alone."""
    settings = GenerateConfig(**options)
    rows = [Chooser(choice_of(settings), Draws(seed, n, [BEGIN]), [BEGIN]) for n in range(DRAWS)]
    log_p = P.log().to(dtype).expand(DRAWS, -1).contiguous()
    return choose_tokens(log_p, rows, SUPPRESSED.suppressed).tolist()


def by_hand(
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float = 0.0,
    allowed: list[int] = ALLOWED,
) -> dict[int, float]:
    """p^(1/temperature) over what may be drawn, then the ``top_k`` best, then the best until ``top_p`` is reached, then
    those of at least ``min_p`` of the best."""
    weight = {token: float(P[token]) ** (1 / temperature) for token in allowed}
    best = sorted(weight, key=lambda token: -weight[token])[:top_k]
    whole, kept, reached = sum(weight[token] for token in best), [], 0.0
    for token in best:
        kept.append(token)
        reached += weight[token] / whole
        if top_p is not None and reached >= top_p:
            break
    kept = [token for token in kept if weight[token] >= min_p * weight[best[0]]]
    total = sum(weight[token] for token in kept)
    return {token: weight[token] / total for token in kept}


def chance(drawn: list[int], expected: dict[int, float]) -> float:
    """P(χ² ≥ that of these draws), by the regularized incomplete gamma function; 0 where one is impossible."""
    counts = torch.bincount(torch.tensor(drawn), minlength=TYPES).tolist()
    if any(count for token, count in enumerate(counts) if token not in expected):
        return 0.0
    if len(expected) == 1:
        return 1.0
    statistic = sum((counts[t] - DRAWS * p) ** 2 / (DRAWS * p) for t, p in expected.items())
    half = torch.tensor([(len(expected) - 1) / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


WAYS = pytest.mark.parametrize("draw", [drawn_from_step, drawn_from_model], ids=["step", "model"])
TEMPERATURES = [0.5, 1.0, 2.0]
CROSSING = 0.5  # of the 0.7 that may be said, 0.18 and 0.16 are less than half, and with 0.12 more


@WAYS
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_temperature_divides_log_probabilities(draw: Callable[..., list[int]], temperature: float) -> None:
    assert chance(draw(1, temperature=temperature), by_hand(temperature=temperature)) > 1e-3


@WAYS
@pytest.mark.parametrize("top_k", [1, 3, TYPES + 5])
def test_top_k_leaves_the_most_probable_in_their_proportions(draw: Callable[..., list[int]], top_k: int) -> None:
    assert chance(draw(2, top_k=top_k), by_hand(top_k=top_k)) > 1e-3


@WAYS
def test_top_p_includes_the_token_that_crosses_it_and_none_after(draw: Callable[..., list[int]]) -> None:
    expected = by_hand(top_p=CROSSING)
    assert len(expected) == 3 and sum(float(P[token]) for token in list(expected)[:2]) / 0.7 < CROSSING
    assert chance(draw(3, top_p=CROSSING), expected) > 1e-3


@WAYS
def test_limits_are_taken_after_temperature_and_the_smaller_first(draw: Callable[..., list[int]]) -> None:
    """A flatter distribution needs more tokens to reach p; of the k best, their share among themselves counts."""
    options = dict(temperature=2.0, top_k=5, top_p=0.7)
    assert len(by_hand(**options)) != len(by_hand(**options | {"temperature": 1.0}))
    assert len(by_hand(**options)) != len(by_hand(temperature=2.0, top_p=0.7))
    assert chance(draw(4, **options), by_hand(**options)) > 1e-3


BOTH: list[dict[str, Any]] = [
    {"temperature": 2.0, "top_p": 0.6}, {"temperature": 0.5, "top_p": 0.8}, {"temperature": 2.0, "top_k": 4},
    {"top_k": 4, "top_p": 0.8}, {"temperature": 0.7, "top_k": 4, "top_p": 0.85},
]  # fmt: skip
WITH_MIN_P: list[dict[str, Any]] = [
    {"temperature": 2.0, "min_p": 0.75}, {"top_p": 0.7, "min_p": 0.6}, {"top_k": 5, "min_p": 0.65},
    {"temperature": 1.5, "top_k": 6, "top_p": 0.9, "min_p": 0.7}, {"top_p": 0.6, "min_p": 0.3},
]  # fmt: skip


@WAYS
@pytest.mark.parametrize("limits", BOTH, ids=str)
def test_limits_that_are_set_together(draw: Callable[..., list[int]], limits: dict[str, Any]) -> None:
    assert chance(draw(7, **limits), by_hand(**limits)) > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("limits", [{}, {"temperature": 2.0}, {"top_p": 0.5}, *BOTH, *WITH_MIN_P], ids=str)
def test_generation_draws_within_all_limits(limits: dict[str, Any], dtype: torch.dtype) -> None:
    expected = by_hand(**limits, allowed=[token for token in ALLOWED if token != UNKNOWN])
    assert chance(drawn_from_generation(8, dtype, **limits), expected) > 1e-3


def test_every_limit_here_changes_what_is_drawn() -> None:
    """So that none of them could be left out; those with min-p tell its place behind top-p."""
    allowed = [token for token in ALLOWED if token != UNKNOWN]
    for limits in BOTH:
        for name in limits:
            less = {other: value for other, value in limits.items() if other != name}
            assert by_hand(**limits) != by_hand(**less), (limits, name)
            assert by_hand(**limits, allowed=allowed) != by_hand(**less, allowed=allowed), (limits, name)


@WAYS
def test_so_many_draws_tell_other_distributions_apart(draw: Callable[..., list[int]]) -> None:
    drawn = draw(5)
    assert chance(drawn, by_hand(temperature=1.3)) < 1e-6
    assert chance(drawn, {token: 1 / len(ALLOWED) for token in ALLOWED}) < 1e-6


def test_what_is_reported_is_log_p_before_temperature_and_limits() -> None:
    settings = SearchConfig(temperature=0.5, top_k=3, top_p=0.9, nbest=50, max_length=1, seed=6)
    opened = decoding().open([0], inputs_of([[5]], settings), settings)
    (found,) = in_order(search(decoding().step, opened), 1)
    for hypothesis in found:
        token = hypothesis.tokens[0] if hypothesis.tokens else END
        assert hypothesis.log_probability == pytest.approx(math.log(float(P[token]) / float(P.sum())), abs=1e-5)


@pytest.mark.parametrize("limit", [{"temperature": 1e-300}, {"top_p": 1e-300}], ids=str)
def test_draws_that_leave_no_choice_take_the_likeliest(limit: dict[str, float]) -> None:
    likeliest = max(ALLOWED, key=lambda token: float(P[token]))
    assert set(drawn_from_step(1, **limit)) == {likeliest}


def test_a_temperature_beyond_all_numbers_draws_evenly() -> None:
    assert set(drawn_from_step(1, temperature=1e300)) == set(ALLOWED)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize(
    "limits", [{}, {"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.3}, {"top_k": 5, "top_p": 0.8, "min_p": 0.2}]
)
def test_the_probabilities_of_a_choice_are_those_of_its_draws(temperature: float, limits: dict[str, Any]) -> None:
    settings = GenerateConfig(temperature=temperature, **limits)
    log_p = choice_probabilities(P.log()[None], choice_of(settings), [BEGIN], SUPPRESSED.suppressed)[0]
    expected = by_hand(temperature=temperature, allowed=[token for token in ALLOWED if token != UNKNOWN], **limits)
    assert {token: p for token, p in enumerate(log_p.exp().tolist()) if p} == pytest.approx(expected)


def test_without_draws_the_most_probable_token_is_certain_and_a_penalty_counts() -> None:
    def certain(**options: Any) -> list[int]:
        choice = choice_of(GenerateConfig(temperature=0, **options))
        log_p = choice_probabilities(P.log()[None], choice, [BEGIN, 7], SUPPRESSED.suppressed)[0]
        return log_p.exp().nonzero().flatten().tolist()

    assert certain() == [7]
    assert certain(repetition_penalty=3.0) == [5]
