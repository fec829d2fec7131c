"""Choice of the next token of each row: the most probable one or a sample, after penalties and limits."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.search.contract import LogP
from regard.search.draws import Draws
from regard.search.repetition import Ngrams, forbid, penalize_count, penalize_seen
from regard.search.sampling import bounded, draw_limited


class TokenChoice(NamedTuple):
    """Rule for the choice of the next token from its log-probabilities.

    Applied in this order: penalties and the limit of n-grams, temperature, ``top_k``, ``top_p``, ``min_p``
    (``search.sampling.limit_scores``, ``search.repetition``).
    """

    temperature: float | None = None  # divisor of log p before a draw; None or 0: the most probable token
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
    choice = choosers[0].choice
    scores = _penalized(log_p, choosers)
    scores = scores.index_fill(1, torch.tensor(suppressed, dtype=torch.int64, device=scores.device), -math.inf)
    if not choice.temperature:
        return scores.argmax(-1)
    numbers = [chooser.draws.next() for chooser in choosers if chooser.draws is not None]
    uniform = torch.tensor(numbers, dtype=torch.float64, device=scores.device)
    scores = scores / bounded(choice.temperature)
    return draw_limited(scores, uniform, choice.top_k, choice.top_p, choice.min_p)


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
