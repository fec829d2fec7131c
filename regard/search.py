"""Search over one function, ``step``: greedy, sampling and beam, batched, finished sentences leaving the batch.

    step: (tokens, state) -> (log_probs, state)

is all that is ever seen of a model. Lengths, and ``|Y|`` below, count the end symbol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from regard.state import State, select

__all__ = ["Hypothesis", "Step", "Symbols", "beam_search", "greedy_search", "length_normaliser", "sample"]

Step = Callable[[Int[Tensor, "rows length"], State], tuple[Float[Tensor, "rows length types"], State]]
LogP = Float[Tensor, "rows types"]
Scores = Float[Tensor, "sentences candidates"]
Indices = Int[Tensor, "sentences candidates"]
Prefixes = Sequence[Sequence[int]]


class Symbols(NamedTuple):
    """The tokens that search must know: ``begin`` is fed first, ``end`` ends; ``never`` are never produced."""

    begin: int
    end: int
    never: tuple[int, ...] = ()


class Hypothesis(NamedTuple):
    """One output, its log P, and whether it ended by itself rather than at the length limit.

    ``tokens`` are without begin and end; ``score`` is what it was ranked by; of ``token_log_probabilities`` the end
    symbol's comes last.
    """

    tokens: list[int]
    log_probability: float
    score: float
    token_log_probabilities: list[float]
    finished: bool


def length_normaliser(length: float, penalty: float, offset: float = 5.0) -> float:
    """lp(Y) = ((k + |Y|) / (k + 1))^α: with ``offset`` k = 5 that of Wu et al. 2016 (Eq. 14), with k = 0 |Y|^α.

    1 for α = 0. |Y| counts the end symbol.
    """
    return ((offset + length) / (offset + 1)) ** penalty


def greedy_search(
    step: Step, state: State, symbols: Symbols, *, longest: Int[Tensor, "rows"], prefixes: Prefixes | None = None
) -> list[Hypothesis]:
    """The most probable next token, again and again. ``longest``: the most tokens of each output."""
    return _extend(step, state, symbols, lambda log_p: log_p.argmax(-1), longest=longest, prefixes=prefixes)


def sample(
    step: Step,
    state: State,
    symbols: Symbols,
    *,
    longest: Int[Tensor, "rows"],
    prefixes: Prefixes | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> list[Hypothesis]:
    """Tokens drawn from softmax(log p / temperature).

    Limited to the ``top_k`` most probable and to the smallest set whose probability reaches ``top_p`` (the token that
    crosses it included; Holtzman et al. 2020). Log probabilities reported are the model's own, before temperature and
    limits.
    """

    def draw(log_p: LogP) -> Int[Tensor, "rows"]:
        limited = _limit(log_p / temperature, top_k, top_p)
        return torch.multinomial(torch.softmax(limited, -1), 1, generator=generator).squeeze(-1)

    return _extend(step, state, symbols, draw, longest=longest, prefixes=prefixes)


def _limit(scores: LogP, top_k: int | None, top_p: float | None) -> LogP:
    if top_k is not None and top_k < scores.shape[-1]:
        scores = scores.masked_fill(scores < scores.topk(top_k, -1).values[:, -1:], -math.inf)
    if top_p is not None:
        ordered, index = scores.sort(-1, descending=True)
        probability = torch.softmax(ordered, -1)
        beyond = probability.cumsum(-1) - probability >= top_p  # what stands before reaches top_p already
        scores = scores.masked_fill(torch.zeros_like(beyond).scatter(-1, index, beyond), -math.inf)
    return scores


def _extend(
    step: Step,
    state: State,
    symbols: Symbols,
    pick: Callable[[LogP], Int[Tensor, "rows"]],
    *,
    longest: Int[Tensor, "rows"],
    prefixes: Prefixes | None,
) -> list[Hypothesis]:
    """One hypothesis a row, token by token; a row leaves when it ends."""
    rows = len(longest)
    out: list[tuple[list[int], list[float]]] = [([], []) for _ in range(rows)]
    ended = [False] * rows
    alive = torch.arange(rows, device=longest.device)
    tokens = torch.full((rows, 1), symbols.begin, dtype=torch.int64, device=longest.device)
    position = 0
    while len(alive):
        log_p, state = step(tokens, state)
        allowed = _allowed(log_p[:, -1], symbols, prefixes, alive.tolist(), position)
        chosen = pick(allowed)
        position += 1
        value = log_p[:, -1].gather(1, chosen[:, None]).squeeze(1)
        for row, token, gained in zip(alive.tolist(), chosen.tolist(), value.tolist(), strict=True):
            out[row][1].append(gained)
            if token == symbols.end:
                ended[row] = True
            else:
                out[row][0].append(token)
        stays = ((chosen != symbols.end) & (position < longest[alive])).nonzero().squeeze(1)
        if len(stays) < len(alive):
            alive, chosen = alive[stays], chosen[stays]
            if len(alive):
                state = select(state, stays)
        tokens = chosen[:, None]
    return [Hypothesis(ids, sum(gains), sum(gains), gains, done) for (ids, gains), done in zip(out, ended, strict=True)]


def _allowed(log_p: LogP, symbols: Symbols, prefixes: Prefixes | None, sentences: Sequence[int], position: int) -> LogP:
    """Log probabilities with −∞ for what may not come: ``never``, and what a prefix does not say."""
    log_p = log_p.clone()
    if symbols.never:
        log_p[:, list(symbols.never)] = -math.inf
    if prefixes is not None:
        for row, sentence in enumerate(sentences):
            if position < len(prefixes[sentence]):
                forced = prefixes[sentence][position]
                kept = log_p[row, forced].clamp_min(torch.finfo(log_p.dtype).min)
                log_p[row] = -math.inf
                log_p[row, forced] = kept
    return log_p


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
    """The ``best`` outputs of each sentence, best first, by log P(Y|X) / lp(Y) (Wu et al. 2016).

    Each step extends ``width`` live hypotheses of a sentence; of the ``width`` best extensions those that end go to a
    pool, so that a beam of one is greedy. A sentence stops when its ``best``-th finished hypothesis scores at least
    log P_live / lp(longest) for every live one: log P only falls and lp only grows with length, so nothing better
    can come. At the limit, live hypotheses stand in only where fewer than ``best`` ended. A wider beam is not always
    better, nor always of higher score.
    """
    normalise = partial(length_normaliser, penalty=length_penalty, offset=length_offset)
    beams = _Beams(len(longest), width, longest, normalise, best, symbols)
    log_p, state = step(beams.begin(), state)
    state = beams.grow(log_p[:, -1], state, prefixes, opening=True)
    while beams.alive:
        log_p, state = step(beams.last_tokens(), state)
        state = beams.grow(log_p[:, -1], state, prefixes, opening=False)
    return beams.results()


class _Beams:
    """The live and finished hypotheses of a batch. Live rows stand sentence by sentence, ``width`` each."""

    def __init__(
        self,
        sentences: int,
        width: int,
        longest: Int[Tensor, "{sentences}"],
        normalise: Callable[[float], float],
        best: int,
        symbols: Symbols,
    ) -> None:
        self.width, self.longest, self.normalise, self.best, self.symbols = width, longest, normalise, best, symbols
        self.alive = list(range(sentences))  # which sentence each block of rows belongs to
        self.tokens = torch.empty(sentences, width, 0, dtype=torch.int64, device=longest.device)
        self.gains = torch.empty(sentences, width, 0, device=longest.device)
        self.total = torch.zeros(sentences, width, dtype=torch.float64, device=longest.device)
        self.pool: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    def begin(self) -> Int[Tensor, "rows 1"]:
        return torch.full((len(self.alive), 1), self.symbols.begin, dtype=torch.int64, device=self.longest.device)

    def last_tokens(self) -> Int[Tensor, "rows 1"]:
        return self.tokens[:, :, -1].reshape(-1, 1)

    def grow(self, log_p: LogP, state: State, prefixes: Prefixes | None, *, opening: bool) -> State:
        """One token more for every live hypothesis; returns the state of the rows that live on."""
        rows_each = 1 if opening else self.width
        position = self.tokens.shape[2]
        owners = [sentence for sentence in self.alive for _ in range(rows_each)]
        allowed = _allowed(log_p, self.symbols, prefixes, owners, position)
        value, parent, token = self._candidates(allowed, rows_each)
        gain = log_p.view(len(self.alive), rows_each, -1)
        gain = gain[torch.arange(len(self.alive), device=log_p.device)[:, None], parent, token]
        ends = token == self.symbols.end
        self._collect(value, parent, token, gain, ends)
        live = torch.argsort(ends, dim=1, stable=True)[:, : self.width]  # the best that do not end, in order
        parent, token = parent.gather(1, live), token.gather(1, live)
        self.total = value.gather(1, live).masked_fill(ends.gather(1, live), -math.inf)
        self.tokens = _append(self.tokens, parent, token)
        self.gains = _append(self.gains, parent, gain.gather(1, live).to(self.gains.dtype))
        stays = self._stays()
        first = torch.arange(len(self.alive), device=log_p.device)[:, None] * rows_each
        rows = (first + parent)[stays].flatten()
        self.alive = [self.alive[index] for index in stays.tolist()]
        self.tokens, self.gains, self.total = self.tokens[stays], self.gains[stays], self.total[stays]
        unmoved = not opening and torch.equal(rows, torch.arange(len(log_p), device=log_p.device))
        return state if unmoved or not self.alive else select(state, rows)

    def _candidates(self, allowed: LogP, rows_each: int) -> tuple[Scores, Indices, Indices]:
        """The 2·width best extensions of each sentence: total log P, the row they extend, the token."""
        many = min(2 * self.width, allowed.shape[1])
        gain, token = allowed.topk(many, -1)
        total = self.total[:, :rows_each].reshape(-1, 1) + gain.to(torch.float64)
        total = total.view(len(self.alive), rows_each * many)
        kept = min(2 * self.width, total.shape[1])
        value, place = total.topk(kept, -1)
        if kept < 2 * self.width:  # a vocabulary smaller than the beam: dead entries fill it
            missing = 2 * self.width - kept
            value = torch.nn.functional.pad(value, (0, missing), value=-math.inf)
            place = torch.nn.functional.pad(place, (0, missing))
        return value, place // many, token.view(len(self.alive), -1).gather(1, place)

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
            above = int(parent[block, candidate])
            log_probability = float(value[block, candidate])
            gains = [*self.gains[block, above].tolist(), float(gain[block, candidate])]
            ids = self.tokens[block, above].tolist()
            score = log_probability / self.normalise(len(gains))
            self.pool[self.alive[block]].append(Hypothesis(ids, log_probability, score, gains, True))

    def _stays(self) -> Int[Tensor, "staying"]:
        """Blocks whose search goes on; those at their limit leave their live hypotheses to fill the pool."""
        stays = []
        length = self.tokens.shape[2]
        top = self.total.amax(1).tolist()
        limits = self.longest[self.alive].tolist()
        for block, sentence in enumerate(self.alive):
            pool = self.pool[sentence]
            pool.sort(key=lambda hypothesis: -hypothesis.score)
            del pool[self.best :]
            bound = top[block] / self.normalise(limits[block])
            if top[block] == -math.inf or (len(pool) == self.best and pool[-1].score >= bound):
                continue
            if length >= limits[block]:
                self._surrender(block)
                continue
            stays.append(block)
        return torch.tensor(stays, dtype=torch.int64, device=self.longest.device)

    def _surrender(self, block: int) -> None:
        pool, length = self.pool[self.alive[block]], self.tokens.shape[2]
        for beam in range(self.width):
            total = float(self.total[block, beam])
            if len(pool) < self.best and total > -math.inf:
                score = total / self.normalise(length)
                ids, gains = self.tokens[block, beam].tolist(), self.gains[block, beam].tolist()
                pool.append(Hypothesis(ids, total, score, gains, False))

    def results(self) -> list[list[Hypothesis]]:
        return self.pool


def _append(
    table: Shaped[Tensor, "sentences width length"],
    parent: Int[Tensor, "sentences width"],
    column: Shaped[Tensor, "sentences width"],
) -> Shaped[Tensor, "sentences width length+1"]:
    """Rows reordered by parent, with one more column."""
    index = parent[..., None].expand(-1, -1, table.shape[2])
    return torch.cat([table.gather(1, index), column[..., None]], 2)
