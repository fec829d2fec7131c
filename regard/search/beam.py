"""Beam search: several hypotheses a sentence, their best extensions kept, until nothing better can come."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import pad

from regard.core.state import State, select
from regard.search.batch_search import (
    Found,
    Hypothesis,
    LogP,
    Prefixes,
    SearchState,
    Step,
    Symbols,
    best_types,
    in_order,
    reading,
    search,
)

__all__ = ["BeamStep", "beam_search", "beams", "length_normaliser"]

Scores = Float[Tensor, "sentences candidates"]
Indices = Int[Tensor, "sentences candidates"]


class BeamStep(NamedTuple):
    """A step of one sentence: the best extensions of its live hypotheses, best first, and what becomes of them.

    Each extends live hypothesis ``parent`` of the step before by ``token``. ``live`` are those that live on, in the
    order in which the next step numbers them; of the others the first ``width`` ended if their token ends.
    """

    total: list[float]  # log P of the whole, −∞ where there is none
    gain: list[float]  # that of the token
    parent: list[int]
    token: list[int]
    live: list[int]


def length_normaliser(length: float, penalty: float, offset: float = 5.0) -> float:
    """lp(Y) = ((k + |Y|) / (k + 1))^α: with ``offset`` k = 5 that of Wu et al. 2016 (Eq. 14), with k = 0 |Y|^α.

    1 for α = 0. |Y| counts the end symbol.
    """
    return ((offset + length) / (offset + 1)) ** penalty


def beam_search(
    step: Step,
    state: State,
    symbols: Symbols,
    *,
    longest: Int[Tensor, "sentences"],
    width: int,
    length_penalty: float = 0.6,
    length_offset: float = 5.0,
    best: int = 1,
    prefixes: Prefixes | None = None,
) -> list[list[Hypothesis]]:
    """The ``best`` outputs of each sentence by log P(Y|X) / lp(Y) (Wu et al. 2016), best first.

    Each step extends ``width`` live hypotheses of a sentence; of the ``width`` best extensions those that end go to a
    pool, so that a beam of one is greedy, ties apart. A sentence stops when its ``best``-th finished hypothesis scores
    at least log P_live / lp(longest) for every live one: log P only falls and lp only grows with length, so nothing
    better can come. At the limit, live hypotheses stand in only where fewer than ``best`` ended, after those. A wider
    beam is not always better, nor always of higher score.
    """
    count = len(longest)
    live = beams(
        range(count), symbols, longest=longest, width=width, length_penalty=length_penalty,
        length_offset=length_offset, best=best, prefixes=prefixes,
    )  # fmt: skip
    return in_order(search(reading(step), (live, state)), count)


def beams(
    numbers: Sequence[int],
    symbols: Symbols,
    *,
    longest: Int[Tensor, "sentences"],
    width: int,
    length_penalty: float = 0.6,
    length_offset: float = 5.0,
    best: int = 1,
    prefixes: Prefixes | None = None,
    watch: Callable[[int, BeamStep], None] | None = None,
) -> SearchState:
    """Sentences before their first step of ``beam_search``. ``watch`` is told each step of each, by its number."""
    normalise = partial(length_normaliser, penalty=length_penalty, offset=length_offset)
    live = _Beams(numbers, symbols, longest, width, normalise, best, prefixes)
    live.watch = watch
    return live


class _Beams(SearchState):
    """The live and finished hypotheses of a batch. SearchState rows stand sentence by sentence, ``width`` each.

    A sentence begins as one row, that of nothing said yet.
    """

    watch: Callable[[int, BeamStep], None] | None = None

    def __init__(
        self,
        numbers: Sequence[int],
        symbols: Symbols,
        longest: Int[Tensor, "sentences"],
        width: int,
        normalise: Callable[[float], float],
        best: int,
        prefixes: Prefixes | None,
    ) -> None:
        self.alive, self.symbols = list(numbers), symbols
        self.width, self.normalise, self.best = width, normalise, best
        sentences, device = len(self.alive), longest.device
        self._longest = longest.tolist()
        self._prefixes = [list(prefix) for prefix in prefixes] if prefixes is not None else [[]] * sentences
        self._pools: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self._position = torch.zeros(sentences, dtype=torch.int64, device=device)
        self._tokens = torch.full((sentences, 1, 1), symbols.begin, dtype=torch.int64, device=device)
        self._gains = torch.zeros(sentences, 1, 0, device=device)
        self._total = torch.zeros(sentences, 1, dtype=torch.float64, device=device)
        self._finished: list[Found] = []

    def tokens(self) -> Int[Tensor, "rows 1"]:
        # Column 0 is the begin symbol: the last token of a sentence stands at its position.
        last = self._position[:, None, None].expand(-1, self._tokens.shape[1], 1)
        return self._tokens.gather(2, last).view(-1, 1)

    def read(self, log_p: LogP, rows: slice) -> tuple[Tensor, ...]:
        """Log probability and number of the best types of each row; of one that a prefix forces, alone."""
        gain, token = best_types(log_p, 2 * self.width, self.symbols.never)
        if any(self._prefixes):
            self._force(log_p, gain, token, rows)
        return gain, token

    def grow(self, read: tuple[Tensor, ...], state: State) -> State:
        rows_each, count = self._tokens.shape[1], len(read[0])
        sentence = torch.arange(len(self.alive), device=read[0].device)[:, None]
        value, gain, parent, token = self._candidates(*read)
        ends = token == self.symbols.end
        self._collect(value, parent, token, gain, ends)
        live = torch.argsort(ends, dim=1, stable=True)[:, : self.width]  # the best that do not end, in order
        if self.watch is not None:
            told = (x.tolist() for x in (value, gain, parent, token, live))
            for number, *extended in zip(self.alive, *told, strict=True):
                self.watch(number, BeamStep(*extended))
        parent, token = parent.gather(1, live), token.gather(1, live)
        self._total = value.gather(1, live).masked_fill(ends.gather(1, live), -math.inf)
        self._tokens = _append(self._tokens, parent, token, self._position + 1)
        self._gains = _append(self._gains, parent, gain.gather(1, live).to(self._gains.dtype), self._position)
        self._position = self._position + 1
        stays = self._stays()
        rows = (sentence * rows_each + parent)[stays].flatten()
        if len(stays) < len(self.alive):
            gone = sorted(set(range(len(self.alive))) - set(stays.tolist()))
            self._finished += [(self.alive[block], self._pools[block]) for block in gone]
            self._keep(stays)
        unmoved = len(rows) == count and torch.equal(rows, torch.arange(len(rows), device=rows.device))
        return state if unmoved or not self.alive else select(state, rows)

    def _candidates(
        self, gain: Float[Tensor, "rows many"], token: Int[Tensor, "rows many"]
    ) -> tuple[Scores, Scores, Indices, Indices]:
        """The 2·width best extensions of each sentence: total log P, the token's, the row they extend, the token."""
        many = gain.shape[1]
        total = (self._total.reshape(-1, 1) + gain.to(torch.float64)).view(len(self.alive), -1)
        kept = min(2 * self.width, total.shape[1])
        value, place = total.topk(kept, -1)
        if kept < 2 * self.width:  # a vocabulary smaller than the beam: dead entries fill it
            missing = 2 * self.width - kept
            value, place = pad(value, (0, missing), value=-math.inf), pad(place, (0, missing))
        gain, token = (x.view(len(self.alive), -1).gather(1, place) for x in (gain, token))
        return value, gain, place // many, token

    def _force(
        self, log_p: LogP, gain: Float[Tensor, "rows many"], token: Int[Tensor, "rows many"], rows: slice
    ) -> None:
        """Where a prefix says what comes, nothing else does, however improbable it is."""
        position, each = self._position.tolist(), self._tokens.shape[1]
        for row in range(len(log_p)):
            block = (rows.start + row) // each
            if position[block] < len(self._prefixes[block]):
                forced = self._prefixes[block][position[block]]
                gain[row, 1:] = -math.inf
                gain[row, 0] = log_p[row, forced].clamp_min(torch.finfo(log_p.dtype).min)
                token[row] = forced

    def _collect(
        self,
        value: Scores,
        parent: Indices,
        token: Indices,
        gain: Scores,
        ends: Bool[Tensor, "sentences candidates"],
    ) -> None:
        among_best = ends[:, : self.width] & (value[:, : self.width] > -math.inf)
        for block, candidate in among_best.nonzero().tolist():
            log_probability = float(value[block, candidate])
            ids, gains = self._said(block, int(parent[block, candidate]))
            gains.append(float(gain[block, candidate]))
            score = log_probability / self.normalise(len(gains))
            self._pools[block].append(Hypothesis(ids, log_probability, score, gains, True))

    def _said(self, block: int, beam: int) -> tuple[list[int], list[float]]:
        """The tokens of a hypothesis and their log probabilities."""
        position = int(self._position[block])
        return self._tokens[block, beam, 1 : position + 1].tolist(), self._gains[block, beam, :position].tolist()

    def _stays(self) -> Int[Tensor, "staying"]:
        """Blocks whose search goes on; those at their limit leave their live hypotheses to fill the pool."""
        stays = []
        top, length = self._total.amax(1).tolist(), self._position.tolist()
        for block, pool in enumerate(self._pools):
            pool.sort(key=lambda hypothesis: -hypothesis.score)
            del pool[self.best :]
            bound = top[block] / self.normalise(self._longest[block])
            if top[block] == -math.inf or (len(pool) == self.best and pool[-1].score >= bound):
                continue
            if length[block] >= self._longest[block]:
                self._surrender(block)
                continue
            stays.append(block)
        return torch.tensor(stays, dtype=torch.int64, device=self._total.device)

    def _surrender(self, block: int) -> None:
        pool = self._pools[block]
        for beam in range(self.width):
            total = float(self._total[block, beam])
            if len(pool) < self.best and total > -math.inf:
                ids, gains = self._said(block, beam)
                if any(ids == ended.tokens for ended in pool):
                    continue
                pool.append(Hypothesis(ids, total, total / self.normalise(len(gains)), gains, False))

    def _keep(self, stays: Int[Tensor, "staying"]) -> None:
        kept = stays.tolist()
        self.alive, self._pools = [self.alive[block] for block in kept], [self._pools[block] for block in kept]
        self._longest = [self._longest[block] for block in kept]
        self._prefixes = [self._prefixes[block] for block in kept]
        self._position, self._total = self._position[stays], self._total[stays]
        self._tokens, self._gains = self._tokens[stays], self._gains[stays]

    def drop(self, numbers: Collection[int], state: State) -> State:
        kept = [block for block, number in enumerate(self.alive) if number not in numbers]
        if len(kept) == len(self.alive):
            return state
        stays = torch.tensor(kept, dtype=torch.int64, device=self._total.device)
        each = self._tokens.shape[1]
        rows = stays[:, None] * each + torch.arange(each, device=stays.device)
        self._keep(stays)
        return select(state, rows.flatten()) if kept else state

    def join(self, other: SearchState) -> None:
        assert isinstance(other, _Beams)
        self._finished += other._finished
        self.alive, self._pools = self.alive + other.alive, self._pools + other._pools
        self._longest, self._prefixes = self._longest + other._longest, self._prefixes + other._prefixes
        self._position = torch.cat([self._position, other._position])
        self._total = torch.cat([self._total, other._total])
        self._tokens, self._gains = _stack(self._tokens, other._tokens), _stack(self._gains, other._gains)

    def finished(self) -> list[Found]:
        found, self._finished = self._finished, []
        return found


def _append(
    table: Shaped[Tensor, "sentences before length"],
    parent: Int[Tensor, "sentences width"],
    column: Shaped[Tensor, "sentences width"],
    position: Int[Tensor, "sentences"],
) -> Shaped[Tensor, "sentences width grown"]:
    """Rows reordered by parent, with ``column`` at each sentence's position."""
    index = parent[..., None].expand(-1, -1, table.shape[2])
    table = table.gather(1, index)
    if len(position) and int(position.max()) >= table.shape[2]:
        table = pad(table, (0, 1))
    place = position[:, None, None].expand(-1, column.shape[1], 1)
    return table.scatter(2, place, column[..., None])


def _stack(
    one: Shaped[Tensor, "sentences width length"], other: Shaped[Tensor, "others width longer"]
) -> Shaped[Tensor, "all width longest"]:
    longest = max(one.shape[2], other.shape[2])
    return torch.cat([pad(table, (0, longest - table.shape[2])) for table in (one, other)])
