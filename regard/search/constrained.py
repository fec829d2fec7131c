"""Beam search for outputs that contain given sequences: dynamic beam allocation (Post & Vilar 2018).

The beam is divided among banks: hypotheses that contain equal numbers of constraint tokens. Hypotheses that contain
constraint tokens are then not displaced by more probable ones that contain none.
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
from regard.search.beam import length_normalizer
from regard.search.best_types import best_types
from regard.search.constraint_state import Constraints, ConstraintSet, ConstraintState
from regard.search.contract import Finished, Hypothesis, LogP, Prefixes, Reduce, SearchState, Symbols
from regard.search.repetition import Ngrams


def start_constrained_beam(
    ids: Sequence[int],
    symbols: Symbols,
    *,
    max_lengths: Int[Tensor, "sentences"],
    width: int,
    constraints: Sequence[Constraints],
    length_penalty: float = 0.6,
    length_offset: float = 5.0,
    nbest: int = 1,
    prefixes: Prefixes | None = None,
    no_repeat: int | None = None,
    early: bool = False,
) -> SearchState:
    """Return the state of a constrained ``beam_search`` before its first step.

    An output ends only when it contains all of its sentence's ``constraints``. Every occurrence counts, also by chance
    or inside another sequence: "a b c" contains "a b" and "b c". At the length limit, the outputs that contain the most
    constraint tokens are returned, unfinished.

    Args:
        ids: one id per sentence.
        symbols: the special tokens.
        max_lengths: maximum tokens of each sentence's outputs, including the end symbol.
        width: live hypotheses per sentence.
        constraints: per sentence, the token sequences that its outputs must contain.
        length_penalty: α of ``length_normalizer``.
        length_offset: k of ``length_normalizer``.
        nbest: outputs per sentence.
        prefixes: tokens that the outputs of each sentence must begin with.
        no_repeat: forbids outputs to repeat n-grams of this size, except in a prefix or to meet constraints.
        early: end a sentence as soon as ``width`` of its outputs have ended: see ``start_beam``.

    Raises:
        ValueError: a sequence contains a token that is never produced.
    """
    required = {token for of in constraints for sequence in of for token in sequence}
    if barred := {*symbols.suppressed, symbols.end} & required:
        raise ValueError(f"constraints contain the tokens {sorted(barred)}, which no output can contain")
    normalize = partial(length_normalizer, penalty=length_penalty, offset=length_offset)
    begins = [()] * len(ids) if prefixes is None else prefixes
    return _ConstrainedState(
        [
            _Sentence(id, symbols.end, ConstraintSet(of), limit, prefix, width, normalize, nbest, no_repeat, early)
            for id, of, limit, prefix in zip(ids, constraints, max_lengths.tolist(), begins, strict=True)
        ],
        symbols, width, max_lengths.device,
    )  # fmt: skip


class _Live(NamedTuple):
    """A live hypothesis: tokens, their log-probabilities and the sum of these in nats, and its constraint state."""

    tokens: list[int]
    token_log_probs: list[float]
    total: float
    constraints: ConstraintState


class _Candidate(NamedTuple):
    """A live hypothesis extended by one token; ``parent`` is the row that it extends."""

    total: float
    parent: int
    token: int
    token_log_prob: float
    constraints: ConstraintState


class _Sentence:
    """The live and finished hypotheses of one sentence.

    ``end`` is the end symbol, ``limit`` the maximum number of tokens of an output, ``normalize`` maps a length to its
    ``length_normalizer``. The other arguments are those of ``start_constrained_beam``, for this sentence.
    """

    def __init__(
        self, id: int, end: int, constraints: ConstraintSet, limit: int, prefix: Sequence[int], width: int,
        normalize: Callable[[float], float], nbest: int, no_repeat: int | None, early: bool,
    ) -> None:  # fmt: skip
        self.id, self.rows = id, 1  # one row before the first step, ``width`` after it
        self._end, self._constraints, self.limit_scores, self._prefix = end, constraints, limit, prefix
        self._width, self._normalize, self._nbest, self._early = width, normalize, nbest, early
        self._no_repeat, self._ended_count = no_repeat, 0
        self.live = [_Live([], [], 0.0, constraints.initial)]
        self.pool: list[Hypothesis] = []

    def in_row(self, row: int) -> _Live:
        """Return the hypothesis of a row; unused rows repeat the first."""
        return self.live[row] if row < len(self.live) else self.live[0]

    def required_tokens(self, row: int) -> list[int]:
        """Return tokens to score even if improbable: the prefix's next token, or those that meet constraints."""
        hypothesis = self.in_row(row)
        position = len(hypothesis.tokens)
        return (
            [self._prefix[position]]
            if position < len(self._prefix)
            else self._constraints.next_tokens(hypothesis.constraints)
        )

    def repeating(self, row: int) -> Collection[int]:
        """Return tokens that would repeat an n-gram of a row's hypothesis; none inside the prefix."""
        tokens = self.in_row(row).tokens
        if self._no_repeat is None or len(tokens) < len(self._prefix):
            return ()
        return Ngrams(self._no_repeat, tokens).repeating()

    def advance(self, log_probs: list[list[float]], tokens: list[list[int]]) -> list[int]:
        """Extend the live hypotheses by one token, from each row's candidates. Return the parent row of each new row.

        The beam is divided among banks twice: over all candidates to choose those that end, then over the others.
        """
        banks: dict[int, list[_Candidate]] = {}
        for candidate in sorted(self._candidates(log_probs, tokens), key=lambda candidate: -candidate.total):
            banks.setdefault(self._constraints.tokens_met(candidate.constraints), []).append(candidate)
        ordered = [banks[bank] for bank in sorted(banks, reverse=True)]
        for bank, share in zip(ordered, _shares(list(map(len, ordered)), self._width), strict=True):
            ended = [self._ended(candidate) for candidate in bank[:share] if candidate.token == self._end]
            self.pool += ended
            self._ended_count += len(ended)
        unended = [[candidate for candidate in bank if candidate.token != self._end] for bank in ordered]
        shares = _shares(list(map(len, unended)), self._width)
        chosen = [candidate for bank, share in zip(unended, shares, strict=True) for candidate in bank[:share]]
        chosen.sort(key=lambda candidate: -candidate.total)
        self.live = [self._extended(candidate) for candidate in chosen]
        self.rows = self._width
        parents = [candidate.parent for candidate in chosen]
        return [*parents, *[parents[0] if parents else 0] * (self._width - len(parents))]

    def _candidates(self, log_probs: list[list[float]], tokens: list[list[int]]) -> list[_Candidate]:
        candidates = {}
        for row, hypothesis in enumerate(self.live):
            met = not any(missing for missing, _ in hypothesis.constraints)
            position, before = len(hypothesis.tokens), self._constraints.tokens_met(hypothesis.constraints)
            repeating = self.repeating(row)
            forced = self._prefix[position] if position < len(self._prefix) else None
            for log_prob, token in zip(log_probs[row], tokens[row], strict=True):
                too_early = token == self._end and not met
                impossible = token < 0 or log_prob == -math.inf or forced not in (None, token)
                if too_early or impossible or (row, token) in candidates:
                    continue
                after = self._constraints.advance(hypothesis.constraints, token)
                if token in repeating and self._constraints.tokens_met(after) <= before:
                    continue
                candidates[row, token] = _Candidate(hypothesis.total + log_prob, row, token, log_prob, after)
        return list(candidates.values())

    def _ended(self, candidate: _Candidate) -> Hypothesis:
        parent = self.live[candidate.parent]
        log_probs = [*parent.token_log_probs, candidate.token_log_prob]
        score = candidate.total / self._normalize(len(log_probs))
        return Hypothesis(list(parent.tokens), candidate.total, score, log_probs, True)

    def _extended(self, candidate: _Candidate) -> _Live:
        parent = self.live[candidate.parent]
        tokens = [*parent.tokens, candidate.token]
        log_probs = [*parent.token_log_probs, candidate.token_log_prob]
        return _Live(tokens, log_probs, candidate.total, candidate.constraints)

    def over(self) -> bool:
        """Return whether the search of the sentence is over; at the length limit, live hypotheses fill the pool.

        It is over once no better output is possible, or with ``early`` once enough hypotheses have ended.
        """
        self.pool.sort(key=lambda hypothesis: -hypothesis.score)
        del self.pool[self._nbest :]
        if not self.live:
            return True
        bound = self.live[0].total / self._normalize(self.limit_scores)
        if len(self.pool) == self._nbest and self.pool[-1].score >= bound:
            return True
        if self._early and self._ended_count >= self._width:
            return True
        if len(self.live[0].tokens) < self.limit_scores:
            return False
        for live in sorted(self.live, key=lambda live: -self._constraints.tokens_met(live.constraints)):
            if len(self.pool) < self._nbest and all(live.tokens != ended.tokens for ended in self.pool):
                score = live.total / self._normalize(len(live.token_log_probs))
                self.pool.append(Hypothesis(live.tokens, live.total, score, live.token_log_probs, False))
        return True


def _shares(counts: list[int], width: int) -> list[int]:
    """Return the rows of the beam for each bank: equal shares, and the rest to the first banks, which meet the most."""
    shares = [0] * len(counts)
    for limit in (max(width // max(sum(map(bool, counts)), 1), 1), width):
        for bank, count in enumerate(counts):
            shares[bank] += min(min(count, limit) - shares[bank], width - sum(shares))
    return shares


class _ConstrainedState(SearchState):
    """Sentences in constrained search. Rows are ordered by sentence, ``width`` each; unused rows repeat the first."""

    def __init__(self, sentences: list[_Sentence], symbols: Symbols, width: int, device: torch.device) -> None:
        self._symbols, self._width, self._device = symbols, width, device
        self._keep(sentences)
        self._finished: list[Finished] = []
        self._required = torch.zeros(0, 0, dtype=torch.int64)  # (rows, tokens), padded with −1
        self._most_repeating = 0  # maximum number of repeating tokens of a row: additional candidates to read

    def _keep(self, sentences: list[_Sentence]) -> None:
        self._sentences, self.active_ids = sentences, [sentence.id for sentence in sentences]

    def tokens(self) -> Int[Tensor, "rows 1"]:
        last, required, repeating = [], [], [0]
        for sentence in self._sentences:
            for row in range(sentence.rows):
                tokens = sentence.in_row(row).tokens
                last.append(tokens[-1] if tokens else self._symbols.begin)
                required.append(sentence.required_tokens(row))
                repeating.append(len(sentence.repeating(row)))
        longest, self._most_repeating = max(map(len, required), default=0), max(repeating)
        filled = [[*tokens, *[-1] * (longest - len(tokens))] for tokens in required]
        self._required = torch.tensor(filled, dtype=torch.int64, device=self._device).view(len(required), longest)
        return torch.tensor(last, dtype=torch.int64, device=self._device)[:, None]

    @property
    def reduce(self) -> Reduce:
        return self._best_and_required

    def _best_and_required(self, log_p: LogP, rows: slice) -> tuple[Tensor, ...]:
        """Return log-probability and id of the best types of each row, then of its required tokens."""
        log_prob, token = best_types(log_p, 2 * self._width + self._most_repeating, self._symbols.suppressed)
        required = self._required[rows]
        also = log_p.gather(1, required.clamp_min(0)).clamp_min(torch.finfo(log_p.dtype).min)
        return torch.cat([log_prob, also], 1), torch.cat([token, required], 1)

    def advance(self, reduced: tuple[Tensor, ...], model_state: State) -> State:
        log_probs, tokens = (part.tolist() for part in reduced)
        rows: list[int] = []
        first, unfinished = 0, []
        for sentence in self._sentences:
            own = slice(first, first + sentence.rows)
            parents = [first + parent for parent in sentence.advance(log_probs[own], tokens[own])]
            first = own.stop
            if sentence.over():
                self._finished.append((sentence.id, sentence.pool))
            else:
                unfinished.append(sentence)
                rows += parents
        self._keep(unfinished)
        unmoved = rows == list(range(len(log_probs)))
        return model_state if unmoved or not rows else select(model_state, self._index(rows))

    def drop(self, ids: Collection[int], model_state: State) -> State:
        rows: list[int] = []
        first, remaining = 0, []
        for sentence in self._sentences:
            if sentence.id not in ids:
                remaining.append(sentence)
                rows += range(first, first + sentence.rows)
            first += sentence.rows
        self._keep(remaining)
        return model_state if len(rows) == first or not rows else select(model_state, self._index(rows))

    def _index(self, rows: list[int]) -> Int[Tensor, "rows"]:
        return torch.tensor(rows, dtype=torch.int64, device=self._device)

    def join(self, other: SearchState) -> None:
        assert isinstance(other, _ConstrainedState)
        self._keep(self._sentences + other._sentences)
        self._finished += other._finished

    def take_finished(self) -> list[Finished]:
        finished, self._finished = self._finished, []
        return finished
