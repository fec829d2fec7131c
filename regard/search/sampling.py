"""Sampling: each next token drawn from the model's distribution, with temperature, top-k, top-p and min-p limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.state import State
from regard.native.draw import drawn_tokens
from regard.search.batch_search import in_order, search
from regard.search.contract import Hypothesis, LogP, Prefixes, Reduce, SearchState, Step, Symbols, chunked
from regard.search.row_state import RowState

__all__ = ["bounded", "draw_limited", "draw_tokens", "limit_scores", "sample", "start_sampling"]

EXTREME = 1e20


def sample(
    step: Step,
    state: State,
    symbols: Symbols,
    *,
    max_lengths: Int[Tensor, "rows"],
    prefixes: Prefixes | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> list[Hypothesis]:
    """One output a row, each token drawn from softmax(log p / temperature).

    Draws are limited to the ``top_k`` most probable types and to the smallest set whose probability reaches ``top_p``
    (the type that crosses it included; Holtzman et al. 2020). Log-probabilities returned are the model's own, before
    temperature and limits.

    Args:
        step: the model's step.
        state: the model state of one row a sentence.
        symbols: the special tokens.
        max_lengths: the most tokens of each sentence's outputs, the end symbol included.
        prefixes: tokens that the outputs of each sentence must begin with.
        temperature: divisor of the log-probabilities before the softmax.
        top_k: number of types that may be drawn; all unless given.
        top_p: probability that the types that may be drawn reach together; all types unless given.
        generator: source of the draws; torch's default one unless given.
    """
    search_state = start_sampling(
        range(len(max_lengths)), symbols, max_lengths=max_lengths, prefixes=prefixes,
        temperature=temperature, top_k=top_k, top_p=top_p, generator=generator,
    )  # fmt: skip
    finished = search(chunked(step), (search_state, state))
    return [hypothesis for (hypothesis,) in in_order(finished, len(max_lengths))]


def start_sampling(
    ids: Sequence[int],
    symbols: Symbols,
    *,
    max_lengths: Int[Tensor, "rows"],
    prefixes: Prefixes | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    draws: int = 1,
) -> SearchState:
    """The state of a sampling search (see ``sample``) before its first step.

    Args:
        ids: one id a sentence.
        symbols: the special tokens.
        max_lengths: the most tokens of each sentence's outputs, the end symbol included.
        prefixes: tokens that the outputs of each sentence must begin with.
        temperature: divisor of the log-probabilities before the softmax.
        top_k: number of types that may be drawn; all unless given.
        top_p: probability that the types that may be drawn reach together; all types unless given.
        generator: source of the draws; torch's default one unless given.
        draws: outputs, and rows of the state, a sentence.
    """

    def draw(log_p: LogP) -> Int[Tensor, "rows"]:
        suppressed = log_p.new_tensor(symbols.suppressed, dtype=torch.int64)
        scores = (log_p / bounded(temperature)).index_fill(1, suppressed, -math.inf)
        return torch.multinomial(torch.softmax(limit_scores(scores, top_k, top_p), -1), 1, generator=generator).squeeze(
            -1
        )

    rows = _SamplingState(ids, symbols, max_lengths, prefixes, draws)
    rows.draw = draw
    return rows


def bounded(temperature: float) -> float:
    """A temperature whose quotients are numbers in float32; beyond these bounds draws are at their limit."""
    return min(max(temperature, 1 / EXTREME), EXTREME)


def limit_scores(scores: LogP, top_k: int | None, top_p: float | None, min_p: float | None = None) -> LogP:
    """Scores with −∞ for the types that may not be drawn; a most probable type of each row always may.

    In this order: the ``top_k`` best; of these, the fewest that reach ``top_p`` of their probability; of these, the
    types with p ≥ ``min_p`` · max p (Nguyen et al. 2024). Scores are log-probabilities but for a constant, after
    temperature and penalties.
    """
    if top_k is not None and top_k < scores.shape[-1]:
        scores = scores.masked_fill(scores < scores.topk(top_k, -1).values[:, -1:], -math.inf)
    if top_p is not None:
        ordered, index = scores.sort(dim=-1, descending=True, stable=True)
        probability = torch.softmax(ordered, -1)
        beyond = probability.cumsum(-1) - probability >= top_p  # the more probable types reach top_p already
        beyond[:, 0] = False  # also where top_p is 0 in this number format
        scores = scores.masked_fill(torch.zeros_like(beyond).scatter(-1, index, beyond), -math.inf)
    if min_p:
        scores = scores.masked_fill(scores < scores.amax(-1, keepdim=True) + math.log(min_p), -math.inf)
    return scores


def draw_tokens(scores: LogP, uniform: Float[Tensor, "rows"]) -> Int[Tensor, "rows"]:
    """The token of each row at the quantile ``uniform``, in [0, 1), of softmax(scores): a draw where that is random.

    A row's token depends on its own scores and number alone, so draws are the same in any company.
    """
    reached = torch.softmax(scores.double(), -1).cumsum(-1)
    whole = reached[:, -1:]
    token = torch.searchsorted(reached, uniform.to(reached)[:, None] * whole, right=True)
    last = (reached < whole).sum(-1, keepdim=True)  # the last that may be drawn, where the product was rounded up
    return torch.minimum(token, last).squeeze(-1)


def draw_limited(
    scores: LogP,
    uniform: Float[Tensor, "rows"],
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Int[Tensor, "rows"]:
    """``draw_tokens`` of ``limit_scores``; by the kernels where they are, which sort nothing."""
    drawn = drawn_tokens(scores, uniform, top_k, top_p, min_p)
    return draw_tokens(limit_scores(scores, top_k, top_p, min_p), uniform) if drawn is None else drawn


class _SamplingState(RowState):
    """One draw a row, made for all rows at once, so that the draws do not depend on how rows are chunked."""

    draw: Callable[[LogP], Int[Tensor, "rows"]]

    @property
    def reduce(self) -> Reduce:
        return lambda log_p, rows: (log_p,)

    def advance(self, reduced: tuple[Tensor, ...], model_state: State) -> State:
        (log_p,) = reduced
        chosen = self.draw(log_p)
        for row, forced in enumerate(self.forced()):
            if forced is not None:
                chosen[row] = forced
        return self.append(chosen[:, None], log_p.gather(1, chosen[:, None]), model_state)
