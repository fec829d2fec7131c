"""Choice of the next token of each row: the most probable one or a sample, after penalties and limits."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.native.draw import drawn_tokens
from regard.search.contract import LogP
from regard.search.draws import Draws
from regard.search.repetition import Ngrams, forbid, penalize_count, penalize_seen

EXTREME = 1e20


class TokenChoice(NamedTuple):
    """Rule for the choice of the next token from its log-probabilities.

    Applied in this order: penalties and the limit of n-grams, temperature, ``top_k``, ``top_p``, ``min_p``
    (``search.choice.limit_scores``, ``search.repetition``).

    Attributes:
        temperature: divisor of log p before a draw; None or 0: the most probable token.
        top_k: only the k most probable tokens; None: all.
        top_p: only the most probable tokens with a total probability of at least p; None: all.
        min_p: only tokens with at least min_p times the highest probability; None: all.
        repetition_penalty: factor of the log-probabilities of earlier tokens; None: 1.
        frequency_penalty: subtracted from a score for each earlier occurrence of the token; None: 0.
        presence_penalty: subtracted from the scores of earlier tokens; None: 0.
        no_repeat_ngram: n: no n-gram occurs twice; None: no limit.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    no_repeat_ngram: int | None = None

    @property
    def draws(self) -> bool:
        """True if tokens are sampled."""
        return bool(self.temperature)

    @property
    def is_plain(self) -> bool:
        """True if the most probable token is always chosen, independent of earlier tokens."""
        penalized = (self.repetition_penalty, self.frequency_penalty, self.presence_penalty, self.no_repeat_ngram)
        return not self.draws and not any(penalized)


GREEDY = TokenChoice()


class Chooser:
    """Earlier tokens and random numbers of one output, on which its choices depend in addition to log-probabilities."""

    def __init__(self, choice: TokenChoice, draws: Draws | None, history: Sequence[int]) -> None:
        self.choice, self.draws, self._history = choice, draws, history
        self.seen: Bool[Tensor, "types"] | None = None
        self.count: Float[Tensor, "types"] | None = None
        size = choice.no_repeat_ngram
        self._ngrams = Ngrams(size, history) if size else None

    def prepare(self, log_p: LogP) -> None:
        """Create the tables of penalties for the types of ``log_p``, once."""
        choice, types, device = self.choice, log_p.shape[1], log_p.device
        if choice.repetition_penalty is not None and self.seen is None:
            self.seen = torch.zeros(types, dtype=torch.bool, device=device)
            self.seen[torch.tensor(sorted(set(self._history)), dtype=torch.int64, device=device)] = True
        if (choice.frequency_penalty, choice.presence_penalty) != (None, None) and self.count is None:
            self.count = torch.zeros(types, device=device)

    def append(self, token: int) -> None:
        """Record a token of the output."""
        if self.seen is not None:
            self.seen[token] = True
        if self.count is not None:
            self.count[token] += 1
        if self._ngrams is not None:
            self._ngrams.append(token)

    def forbidden(self) -> Collection[int]:
        """Return the tokens that would repeat an n-gram."""
        return () if self._ngrams is None else self._ngrams.repeating()


def choose_tokens(log_p: LogP, choosers: Sequence[Chooser], suppressed: Sequence[int]) -> Int[Tensor, "rows"]:
    """Return the next token of each row, which depends on the row only. ``suppressed``: tokens never chosen."""
    groups: defaultdict[TokenChoice, list[int]] = defaultdict(list)
    for row, chooser in enumerate(choosers):
        groups[chooser.choice].append(row)
    if len(groups) == 1:
        return _choose(log_p, choosers, suppressed)
    tokens = torch.zeros(len(log_p), dtype=torch.int64, device=log_p.device)
    for rows in groups.values():
        index = torch.tensor(rows, device=log_p.device)
        tokens[index] = _choose(log_p[index], [choosers[row] for row in rows], suppressed)
    return tokens


def _choose(log_p: LogP, choosers: Sequence[Chooser], suppressed: Sequence[int]) -> Int[Tensor, "rows"]:
    """Choose the tokens of rows with the same rule."""
    choice, scores = choosers[0].choice, _allowed(log_p, choosers, suppressed)
    if not choice.temperature:
        return scores.argmax(-1)
    numbers = [chooser.draws.next() for chooser in choosers if chooser.draws is not None]
    uniform = torch.tensor(numbers, dtype=torch.float64, device=scores.device)
    scores = scores / bounded(choice.temperature)
    return draw_limited(scores, uniform, choice.top_k, choice.top_p, choice.min_p)


def choice_probabilities(log_p: LogP, choice: TokenChoice, history: Sequence[int], suppressed: Sequence[int]) -> LogP:
    """Return the log-probability of each token under ``choice`` as the first token of an output.

    Args:
        log_p: (1, types) the log-probabilities of the model.
        choice: the rule; without draws, the most probable token has probability 1.
        history: the tokens of the prompt.
        suppressed: tokens that are never chosen.
    """
    scores = _allowed(log_p, [Chooser(choice, None, history)], suppressed)
    if not choice.temperature:
        return torch.full_like(scores, -math.inf).scatter(1, scores.argmax(-1, keepdim=True), 0.0)
    scores = limit_scores(scores / bounded(choice.temperature), choice.top_k, choice.top_p, choice.min_p)
    return scores.double().log_softmax(-1)


def _allowed(log_p: LogP, choosers: Sequence[Chooser], suppressed: Sequence[int]) -> LogP:
    """Return the scores after penalties, −∞ for suppressed tokens."""
    scores = _penalized(log_p, choosers)
    return scores.index_fill(1, torch.tensor(suppressed, dtype=torch.int64, device=scores.device), -math.inf)


def _penalized(log_p: LogP, choosers: Sequence[Chooser]) -> LogP:
    choice = choosers[0].choice
    for chooser in choosers:
        chooser.prepare(log_p)
    if choice.repetition_penalty is not None:
        seen = torch.stack([chooser.seen for chooser in choosers if chooser.seen is not None])
        log_p = penalize_seen(log_p, seen, choice.repetition_penalty)
    if choice.frequency_penalty is not None or choice.presence_penalty is not None:
        count = torch.stack([chooser.count for chooser in choosers if chooser.count is not None])
        log_p = penalize_count(log_p, count, choice.frequency_penalty or 0.0, choice.presence_penalty or 0.0)
    return forbid(log_p, [chooser.forbidden() for chooser in choosers]) if choice.no_repeat_ngram else log_p


def bounded(temperature: float) -> float:
    """Return a temperature whose quotients are finite in float32; beyond these bounds sampling does not change."""
    return min(max(temperature, 1 / EXTREME), EXTREME)


def limit_scores(scores: LogP, top_k: int | None, top_p: float | None, min_p: float | None = None) -> LogP:
    """Return the scores with −∞ for the types that may not be sampled; the most probable type is always kept.

    Applied in this order: the ``top_k`` best; of these, the fewest that reach ``top_p`` of their probability; of these,
    the types with p ≥ ``min_p`` · max p (Nguyen et al. 2024). Scores are log-probabilities up to a constant, after
    temperature and penalties.
    """
    if top_k is not None and top_k < scores.shape[-1]:
        scores = scores.masked_fill(scores < scores.topk(top_k, -1).values[:, -1:], -math.inf)
    if top_p is not None:
        ordered, index = scores.sort(dim=-1, descending=True, stable=True)
        probability = torch.softmax(ordered, -1)
        beyond = probability.cumsum(-1) - probability >= top_p  # the more probable types reach top_p already
        beyond[:, 0] = False  # also if top_p rounds to 0 in this dtype
        scores = scores.masked_fill(torch.zeros_like(beyond).scatter(-1, index, beyond), -math.inf)
    if min_p:
        scores = scores.masked_fill(scores < scores.amax(-1, keepdim=True) + math.log(min_p), -math.inf)
    return scores


def draw_tokens(scores: LogP, uniform: Float[Tensor, "rows"]) -> Int[Tensor, "rows"]:
    """Return the token of each row at the quantile ``uniform`` in [0, 1) of softmax(scores).

    A uniform random number gives a sample. A row's token depends only on its own scores and number, so samples do not
    depend on the batch.
    """
    reached = torch.softmax(scores.double(), -1).cumsum(-1)
    whole = reached[:, -1:]
    token = torch.searchsorted(reached, uniform.to(reached)[:, None] * whole, right=True)
    last = (reached < whole).sum(-1, keepdim=True)  # the last possible token, if the product was rounded up
    return torch.minimum(token, last).squeeze(-1)


def draw_limited(
    scores: LogP,
    uniform: Float[Tensor, "rows"],
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Int[Tensor, "rows"]:
    """Return ``draw_tokens`` of ``limit_scores``, by the compiled kernels if available, which do not sort."""
    drawn = drawn_tokens(scores, uniform, top_k, top_p, min_p)
    return draw_tokens(limit_scores(scores, top_k, top_p, min_p), uniform) if drawn is None else drawn
