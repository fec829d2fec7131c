"""Beam search for outputs that contain given sequences: dynamic beam allocation (Post & Vilar 2018).

The beam is shared out among banks: hypotheses that have said equally much of what is wanted. So those that have said
some of it are not crowded out by those that have said none, which are more probable as a rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from regard.core.state import State, select
from regard.search.batch_search import Found, Hypothesis, LogP, Prefixes, SearchState, Symbols, best_types
from regard.search.beam import length_normaliser
from regard.search.constraint_state import Constraints, Progress, Wanted

__all__ = ["Constraints", "constrained"]


def constrained(
    numbers: Sequence[int],
    symbols: Symbols,
    *,
    longest: Int[Tensor, "sentences"],
    width: int,
    constraints: Sequence[Constraints],
    length_penalty: float = 0.6,
    length_offset: float = 5.0,
    best: int = 1,
    prefixes: Prefixes | None = None,
) -> SearchState:
    """Sentences before their first step of ``beam_search``, each with what its outputs must contain.

    An output ends only when it contains all of that. Each occurrence counts, by chance or in another sequence too: "a b
    c" contains "a b" and "b c". Where the length limit comes first, the outputs that contain most of it stand in,
    not finished. ValueError for a sequence that can never be said.
    """
    if barred := {*symbols.never, symbols.end} & {token for of in constraints for each in of for token in each}:
        raise ValueError(f"the tokens {sorted(barred)} are never part of an output")
    normalise = partial(length_normaliser, penalty=length_penalty, offset=length_offset)
    begins = [()] * len(numbers) if prefixes is None else prefixes
    return _Constrained(
        [
            _Sentence(number, symbols.end, Wanted(wanted), limit, prefix, width, normalise, best)
            for number, wanted, limit, prefix in zip(numbers, constraints, longest.tolist(), begins, strict=True)
        ],
        symbols, width, longest.device,
    )  # fmt: skip


class _Said(NamedTuple):
    """A hypothesis: its tokens, their log probabilities and the sum of these, and how much of what is wanted it has."""

    tokens: list[int]
    gains: list[float]
    total: float
    progress: Progress


class _Candidate(NamedTuple):
    """A hypothesis of one token more; ``parent`` is the row that it extends."""

    total: float
    parent: int
    token: int
    gain: float
    progress: Progress


class _Sentence:
    """The live and finished hypotheses of one sentence."""

    def __init__(
        self, number: int, end: int, wanted: Wanted, limit: int, prefix: Sequence[int], width: int,
        normalise: Callable[[float], float], best: int,
    ) -> None:  # fmt: skip
        self.number, self.rows = number, 1  # one row before the first step, ``width`` after it
        self._end, self._wanted, self._limit, self._prefix = end, wanted, limit, prefix
        self._width, self._normalise, self._best = width, normalise, best
        self.live = [_Said([], [], 0.0, wanted.none)]
        self.pool: list[Hypothesis] = []

    def next(self, row: int) -> list[int]:
        """The tokens to be looked at however improbable they are: that which the prefix forces, or what is wanted."""
        said = self.live[row] if row < len(self.live) else self.live[0]
        at = len(said.tokens)
        return [self._prefix[at]] if at < len(self._prefix) else self._wanted.next(said.progress)

    def grow(self, gains: list[list[float]], tokens: list[list[int]]) -> list[int]:
        """One token more, from what each row may say. Returns the row that each of the new rows extends."""
        banks: dict[int, list[_Candidate]] = {}
        for candidate in sorted(self._candidates(gains, tokens), key=lambda each: -each.total):
            banks.setdefault(self._wanted.bank(candidate.progress), []).append(candidate)
        ordered = [banks[bank] for bank in sorted(banks, reverse=True)]
        for bank, share in zip(ordered, _shares(list(map(len, ordered)), self._width), strict=True):
            self.pool += [self._ended(each) for each in bank[:share] if each.token == self._end]
        going = [[each for each in bank if each.token != self._end] for bank in ordered]
        shares = _shares(list(map(len, going)), self._width)
        kept = [each for bank, share in zip(going, shares, strict=True) for each in bank[:share]]
        kept.sort(key=lambda each: -each.total)
        self.live = [self._extended(each) for each in kept]
        self.rows = self._width
        return [*(each.parent for each in kept), *[kept[0].parent if kept else 0] * (self._width - len(kept))]

    def _candidates(self, gains: list[list[float]], tokens: list[list[int]]) -> list[_Candidate]:
        found = {}
        for row, said in enumerate(self.live):
            met = not any(missing for missing, _ in said.progress)
            at = len(said.tokens)
            forced = self._prefix[at] if at < len(self._prefix) else None
            for gain, token in zip(gains[row], tokens[row], strict=True):
                ends = token == self._end and not met  # before it may
                if token < 0 or ends or gain == -math.inf or forced not in (None, token) or (row, token) in found:
                    continue
                progress = self._wanted.after(said.progress, token)
                found[row, token] = _Candidate(said.total + gain, row, token, gain, progress)
        return list(found.values())

    def _ended(self, candidate: _Candidate) -> Hypothesis:
        parent = self.live[candidate.parent]
        gains = [*parent.gains, candidate.gain]
        score = candidate.total / self._normalise(len(gains))
        return Hypothesis(list(parent.tokens), candidate.total, score, gains, True)

    def _extended(self, candidate: _Candidate) -> _Said:
        parent = self.live[candidate.parent]
        tokens, gains = [*parent.tokens, candidate.token], [*parent.gains, candidate.gain]
        return _Said(tokens, gains, candidate.total, candidate.progress)

    def over(self) -> bool:
        """Whether nothing better can come, or the limit has; then live hypotheses fill the pool."""
        self.pool.sort(key=lambda hypothesis: -hypothesis.score)
        del self.pool[self._best :]
        if not self.live:
            return True
        bound = self.live[0].total / self._normalise(self._limit)
        if len(self.pool) == self._best and self.pool[-1].score >= bound:
            return True
        if len(self.live[0].tokens) < self._limit:
            return False
        for said in sorted(self.live, key=lambda said: -self._wanted.bank(said.progress)):
            if len(self.pool) < self._best and all(said.tokens != ended.tokens for ended in self.pool):
                score = said.total / self._normalise(len(said.gains))
                self.pool.append(Hypothesis(said.tokens, said.total, score, said.gains, False))
        return True


def _shares(counts: list[int], width: int) -> list[int]:
    """Of each bank, equally much as far as it has so many; the rest goes to the first, of which most has been said."""
    shares = [0] * len(counts)
    for most in (max(width // max(sum(map(bool, counts)), 1), 1), width):
        for bank, count in enumerate(counts):
            shares[bank] += min(min(count, most) - shares[bank], width - sum(shares))
    return shares


class _Constrained(SearchState):
    """Rows stand sentence by sentence, ``width`` each; rows that a sentence does not need repeat its first."""

    def __init__(self, sentences: list[_Sentence], symbols: Symbols, width: int, device: torch.device) -> None:
        self._symbols, self._width, self._device = symbols, width, device
        self._stay(sentences)
        self._finished: list[Found] = []
        self._wanted = torch.zeros(0, 0, dtype=torch.int64)

    def _stay(self, sentences: list[_Sentence]) -> None:
        self._sentences, self.alive = sentences, [sentence.number for sentence in sentences]

    def tokens(self) -> Int[Tensor, "rows 1"]:
        last, wanted = [], []
        for sentence in self._sentences:
            for row in range(sentence.rows):
                said = sentence.live[row] if row < len(sentence.live) else sentence.live[0]
                last.append(said.tokens[-1] if said.tokens else self._symbols.begin)
                wanted.append(sentence.next(row))
        most = max(map(len, wanted), default=0)
        filled = [[*tokens, *[-1] * (most - len(tokens))] for tokens in wanted]  # −1: nothing
        self._wanted = torch.tensor(filled, dtype=torch.int64, device=self._device).view(len(wanted), most)
        return torch.tensor(last, dtype=torch.int64, device=self._device)[:, None]

    def read(self, log_p: LogP, rows: slice) -> tuple[Tensor, ...]:
        """Log probability and number of the best types of each row, and of those that are wanted of it."""
        gain, token = best_types(log_p, 2 * self._width, self._symbols.never)
        wanted = self._wanted[rows]
        also = log_p.gather(1, wanted.clamp_min(0)).clamp_min(torch.finfo(log_p.dtype).min)
        return torch.cat([gain, also], 1), torch.cat([token, wanted], 1)

    def grow(self, read: tuple[Tensor, ...], state: State) -> State:
        gains, tokens = (part.tolist() for part in read)
        rows: list[int] = []
        first, stays = 0, []
        for sentence in self._sentences:
            mine = slice(first, first + sentence.rows)
            parents = [first + parent for parent in sentence.grow(gains[mine], tokens[mine])]
            first = mine.stop
            if sentence.over():
                self._finished.append((sentence.number, sentence.pool))
            else:
                stays.append(sentence)
                rows += parents
        self._stay(stays)
        unmoved = rows == list(range(len(gains)))
        return state if unmoved or not rows else select(state, self._places(rows))

    def drop(self, numbers: Collection[int], state: State) -> State:
        rows: list[int] = []
        first, stays = 0, []
        for sentence in self._sentences:
            if sentence.number not in numbers:
                stays.append(sentence)
                rows += range(first, first + sentence.rows)
            first += sentence.rows
        self._stay(stays)
        return state if len(rows) == first or not rows else select(state, self._places(rows))

    def _places(self, rows: list[int]) -> Int[Tensor, "rows"]:
        return torch.tensor(rows, dtype=torch.int64, device=self._device)

    def join(self, other: SearchState) -> None:
        assert isinstance(other, _Constrained)
        self._stay(self._sentences + other._sentences)
        self._finished += other._finished

    def finished(self) -> list[Found]:
        found, self._finished = self._finished, []
        return found
