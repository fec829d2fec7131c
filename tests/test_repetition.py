"""Limits of sampling and repetition: figures by pencil, laws, and the processors of transformers beside ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.search.choice import draw_tokens, limit_scores
from regard.search.repetition import Ngrams, forbid, penalize_count, penalize_seen

P = torch.tensor([[0.5, 0.2, 0.15, 0.1, 0.05]], dtype=torch.float64)


def kept(scores: Tensor) -> list[int]:
    return (scores[0] > -math.inf).nonzero()[:, 0].tolist()


# By pencil


@pytest.mark.parametrize(
    ("min_p", "tokens"), [(0.0, 5), (0.1, 5), (0.11, 4), (0.25, 3), (0.35, 2), (0.5, 1), (1.0, 1), (None, 5)]
)
def test_min_p_keeps_a_share_of_the_likeliest(min_p: float | None, tokens: int) -> None:
    assert kept(limit_scores(P.log(), None, None, min_p)) == list(range(tokens))


def test_min_p_does_not_ask_whether_scores_are_normalized() -> None:
    assert kept(limit_scores(P.log() + 7.0, None, None, 0.25)) == [0, 1, 2]


def test_a_flatter_distribution_keeps_more_under_min_p() -> None:
    assert kept(limit_scores(P.log() / 2.0, None, None, 0.35)) == [0, 1, 2, 3]  # √0.1 / √0.5 = 0.447, √0.1 = 0.316


def test_the_penalty_of_ctrl() -> None:
    seen = torch.tensor([[True, False, True, False]])
    scores = torch.tensor([[2.0, 2.0, -1.0, -1.0]])
    assert penalize_seen(scores, seen, 2.0).tolist() == [[1.0, 2.0, -2.0, -1.0]]
    assert penalize_seen(scores, seen, 0.5).tolist() == [[4.0, 2.0, -0.5, -1.0]]
    assert torch.equal(penalize_seen(scores, seen, 1.0), scores)


def test_penalties_by_count() -> None:
    count = torch.tensor([[0.0, 1.0, 3.0]])
    assert penalize_count(torch.zeros(1, 3), count, 0.5, 0.25).tolist() == [[0.0, -0.75, -1.75]]
    assert penalize_count(torch.zeros(1, 3), count, -1.0, 0.0).tolist() == [[0.0, 1.0, 3.0]]


def test_tokens_that_would_repeat_an_ngram() -> None:
    assert set(Ngrams(3, [1, 2, 3, 1, 2]).repeating()) == {3}
    assert set(Ngrams(2, [1, 2, 1, 3, 1]).repeating()) == {2, 3}
    assert set(Ngrams(1, [5, 6, 5]).repeating()) == {5, 6}
    assert set(Ngrams(3, [1]).repeating()) == set() == set(Ngrams(1).repeating())
    scores = forbid(torch.zeros(2, 4), [{1, 3}, set()])
    assert scores.tolist() == [[0.0, -math.inf, 0.0, -math.inf], [0.0] * 4]


# Laws

SCORES = st.lists(st.floats(-30, 30), min_size=1, max_size=12)
LIMITS = st.tuples(
    st.none() | st.integers(1, 14), st.none() | st.floats(1e-9, 1, exclude_min=True), st.none() | st.floats(0, 1)
)


@given(SCORES, LIMITS)
@settings(deadline=None)
def test_limits_keep_the_likeliest_and_take_away_from_each_other_alone(
    values: list[float], limits: tuple[int | None, float | None, float | None]
) -> None:
    scores = torch.tensor([values], dtype=torch.float64)
    limited = limit_scores(scores, *limits)
    remaining = set(kept(limited))
    assert max(values) in [values[token] for token in remaining]
    assert torch.equal(limited[limited > -math.inf], scores[limited > -math.inf])
    least = min(values[token] for token in remaining)
    assert all(token in remaining for token, value in enumerate(values) if value > least), "no gap among the kept"
    top_k, top_p, min_p = limits
    in_turn = limit_scores(limit_scores(limit_scores(scores, top_k, None), None, top_p), None, None, min_p)
    assert torch.equal(in_turn, limited)


@given(SCORES, st.floats(0, 1, exclude_max=True))
@settings(deadline=None)
def test_a_token_is_drawn_at_its_quantile(values: list[float], number: float) -> None:
    scores = torch.tensor([values], dtype=torch.float64)
    p = torch.softmax(scores, -1)[0].tolist()
    token = int(draw_tokens(scores, torch.tensor([number], dtype=torch.float64)))
    assert math.fsum(p[:token]) - 1e-9 <= number <= math.fsum(p[: token + 1]) + 1e-9 and p[token] > 0


def test_evenly_spaced_numbers_draw_each_token_in_its_proportion() -> None:
    """Exact: each of 1,000 quantiles once."""
    scores = torch.tensor([0.125, 0.0, 0.25, 0.5, 0.125]).log().expand(1000, -1)
    drawn = draw_tokens(scores, (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000)
    assert torch.bincount(drawn, minlength=5).tolist() == [125, 0, 250, 500, 125]


@pytest.mark.parametrize("number", [0.0, 1 - 2**-53])
def test_what_is_forbidden_is_not_drawn_at_either_end(number: float) -> None:
    scores = torch.full((300, 9), -math.inf).index_put((torch.arange(300), torch.arange(300) % 7 + 1), torch.rand(300))
    drawn = draw_tokens(scores, torch.full((300,), number, dtype=torch.float64))
    assert torch.equal(drawn, torch.arange(300) % 7 + 1)


def test_a_draw_does_not_depend_on_its_company() -> None:
    torch.manual_seed(1)
    scores, numbers = torch.randn(9, 40), torch.rand(9, dtype=torch.float64)
    alone = [
        int(draw_tokens(limit_scores(scores[row : row + 1], 9, 0.8, 0.05), numbers[row : row + 1])) for row in range(9)
    ]
    assert draw_tokens(limit_scores(scores, 9, 0.8, 0.05), numbers).tolist() == alone


# The processors of transformers

HISTORY = [[3, 5, 3, 5, 7, 3], [1, 1, 1, 2, 1, 1]]


def seen(types: int) -> Tensor:
    return torch.stack([torch.bincount(torch.tensor(row), minlength=types) > 0 for row in HISTORY])


def repeating(n: int) -> list[Collection[int]]:
    return [Ngrams(n, row).repeating() for row in HISTORY]


PROCESSORS: dict[str, tuple[str, dict[str, Any], Callable[[Tensor], Tensor]]] = {
    "min-p": ("MinPLogitsWarper", {"min_p": 0.2}, lambda x: limit_scores(x, None, None, 0.2)),
    "top-k": ("TopKLogitsWarper", {"top_k": 5}, lambda x: limit_scores(x, 5, None)),
    "top-p": ("TopPLogitsWarper", {"top_p": 0.7}, lambda x: limit_scores(x, None, 0.7)),
    "repetition": (
        "RepetitionPenaltyLogitsProcessor", {"penalty": 1.7}, lambda x: penalize_seen(x, seen(x.shape[1]), 1.7),
    ),
    "n-grams": (
        "NoRepeatNGramLogitsProcessor", {"ngram_size": 2}, lambda x: forbid(x, repeating(2)),
    ),
    "one token": (
        "NoRepeatNGramLogitsProcessor", {"ngram_size": 1}, lambda x: forbid(x, repeating(1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROCESSORS)
def test_scores_are_those_of_transformers(name: str) -> None:
    processors = pytest.importorskip("transformers.generation.logits_process")
    theirs, options, ours = PROCESSORS[name]
    torch.manual_seed(3)
    for scores in (3 * torch.randn(2, 20), (3 * torch.randn(2, 20)).log_softmax(-1)):
        wanted = getattr(processors, theirs)(**options)(torch.tensor(HISTORY), scores.clone())
        torch.testing.assert_close(ours(scores), wanted)
