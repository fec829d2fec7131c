"""Search over one function, ``step``: greedy, sampling and beam, for a batch of which sentences leave and enter.

    step: (tokens, state) -> (log_probs, state)

is all that is ever seen of a model, or ``Reading``, which hands its rows over in pieces. Lengths, and ``|Y|`` below,
count the end symbol. What is being searched is a ``SearchState``: sentences that each stand at their own step.
``RunningBatch`` is a batch of them, which sentences enter and leave between steps; ``search`` fills it with those that
wait as others are done, and ``greedy_search``, ``sample`` and ``beam_search`` run it for one batch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.state import State, join, select

__all__ = [
    "Found",
    "Hypothesis",
    "LogP",
    "Opened",
    "Prefixes",
    "Read",
    "Reading",
    "RunningBatch",
    "SearchState",
    "Step",
    "Symbols",
    "best_types",
    "greedy",
    "greedy_search",
    "in_order",
    "limit_scores",
    "reading",
    "sample",
    "sampling",
    "search",
]  # fmt: skip

Step = Callable[[Int[Tensor, "rows length"], State], tuple[Float[Tensor, "rows length types"], State]]
LogP = Float[Tensor, "rows types"]
# Consecutive rows' log probabilities, and which rows those are, to what is wanted of them, row by row.
Read = Callable[[LogP, slice], tuple[Tensor, ...]]
# A step that reads its rows while they are in the cache: what was read, one after the other, and the state.
Reading = Callable[[Int[Tensor, "rows 1"], State, Read], tuple[tuple[Tensor, ...], State]]
Prefixes = Sequence[Sequence[int]]
Found = tuple[int, "list[Hypothesis]"]

CHUNK = 64  # the best types are looked for in the chunks of a row with the highest maxima
LARGE = 1024  # from so many types on


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


class SearchState(ABC):
    """Outputs in progress, one or more rows a sentence, each sentence at its own step.

    ``alive`` are the numbers of the sentences still searched, in the order of their rows, perhaps more than once.
    """

    alive: list[int]

    @abstractmethod
    def tokens(self) -> Int[Tensor, "rows 1"]:
        """What each row is fed next."""

    @abstractmethod
    def read(self, log_p: LogP, rows: slice) -> tuple[Tensor, ...]:
        """What ``grow`` has to know of these rows, perhaps only some of all."""

    @abstractmethod
    def grow(self, read: tuple[Tensor, ...], state: State) -> State:
        """One token more for every row, from what was read of all. Returns the state of the rows that live on."""

    @abstractmethod
    def join(self, other: SearchState) -> None:
        """The sentences of ``other``, which have made a step too, come after these."""

    @abstractmethod
    def drop(self, numbers: Collection[int], state: State) -> State:
        """These sentences are wanted no more, finished or not. Returns the state of the rows that live on."""

    @abstractmethod
    def finished(self) -> list[Found]:
        """Number and outputs, best first, of each sentence that ended since this was last asked."""


Opened = tuple[SearchState, State]


def reading(step: Step) -> Reading:
    """The rows of a plain step, all at once."""

    def read_all(tokens: Int[Tensor, "rows 1"], state: State, read: Read) -> tuple[tuple[Tensor, ...], State]:
        log_p, state = step(tokens, state)
        return read(log_p[:, -1], slice(0, len(log_p))), state

    return read_all


class RunningBatch:
    """A batch in search, one step at a time."""

    def __init__(self, step: Reading) -> None:
        self._step = step
        self._batch: Opened | None = None

    @property
    def alive(self) -> set[int]:
        """The numbers of the sentences still searched."""
        return set(self._batch[0].alive) if self._batch else set()

    def enter(self, opened: Opened) -> None:
        """Newcomers, which make their first step alone, then join. All sentences are searched in the same way."""
        self.join(self.begun(opened))

    def begun(self, opened: Opened) -> Opened:
        """After a step of their own; those that run already are not touched."""
        live, state = opened
        return live, self._grown(live, state) if live.alive else state

    def join(self, begun: Opened) -> None:
        live, state = begun
        if self._batch is not None:
            old, before = self._batch
            state = join([before, state]) if old.alive and live.alive else before if old.alive else state
            old.join(live)
            live = old
        self._batch = live, state

    def advance(self) -> None:
        """One token more for every sentence."""
        if self._batch is not None and self._batch[0].alive:
            live, state = self._batch
            self._batch = live, self._grown(live, state)

    def drop(self, numbers: Collection[int]) -> None:
        """These sentences are wanted no more."""
        if self._batch is not None and not self.alive.isdisjoint(numbers):
            live, state = self._batch
            self._batch = live, live.drop(numbers, state)

    def finished(self) -> list[Found]:
        """Sentences with their outputs that ended since this was last asked."""
        return self._batch[0].finished() if self._batch else []

    def _grown(self, live: SearchState, state: State) -> State:
        read, state = self._step(live.tokens(), state, live.read)
        return live.grow(read, state)


def search(
    step: Reading,
    first: Opened,
    waiting: Callable[[int], Opened | None] = lambda free: None,
    *,
    room: int = 0,
) -> Iterator[Found]:
    """Sentences with their outputs as they end.

    ``waiting`` is asked for at most ``free`` sentences more, once an eighth of ``room`` is free, and answers None when
    there are none.
    """
    running, exhausted = RunningBatch(step), False
    running.enter(first)
    while True:
        yield from running.finished()
        free = room - len(running.alive)
        if not exhausted and free >= max(room // 8, 1):
            more = waiting(free)
            exhausted = more is None
            if more is not None:
                running.enter(more)
                continue
        if not running.alive:
            return
        running.advance()


def in_order(found: Iterator[Found], count: int) -> list[list[Hypothesis]]:
    """The outputs of sentences 0 to ``count`` − 1, in this order."""
    outputs = dict(found)
    return [outputs[number] for number in range(count)]


def greedy_search(
    step: Step, state: State, symbols: Symbols, *, longest: Int[Tensor, "rows"], prefixes: Prefixes | None = None
) -> list[Hypothesis]:
    """The most probable next token, again and again. ``longest``: the most tokens of each output."""
    live = greedy(range(len(longest)), symbols, longest=longest, prefixes=prefixes)
    return [hypothesis for (hypothesis,) in in_order(search(reading(step), (live, state)), len(longest))]


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
    live = sampling(
        range(len(longest)), symbols, longest=longest, prefixes=prefixes,
        temperature=temperature, top_k=top_k, top_p=top_p, generator=generator,
    )  # fmt: skip
    return [hypothesis for (hypothesis,) in in_order(search(reading(step), (live, state)), len(longest))]


def greedy(
    numbers: Sequence[int], symbols: Symbols, *, longest: Int[Tensor, "rows"], prefixes: Prefixes | None = None
) -> SearchState:
    """Sentences before their first step of ``greedy_search``."""
    return _Greedy(numbers, symbols, longest, prefixes)


def sampling(
    numbers: Sequence[int],
    symbols: Symbols,
    *,
    longest: Int[Tensor, "rows"],
    prefixes: Prefixes | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    draws: int = 1,
) -> SearchState:
    """Sentences before their first step of ``sample``, ``draws`` rows each: the outputs of one come best first."""

    def draw(log_p: LogP) -> Int[Tensor, "rows"]:
        scores = (log_p / temperature).index_fill(1, log_p.new_tensor(symbols.never, dtype=torch.int64), -math.inf)
        return torch.multinomial(torch.softmax(limit_scores(scores, top_k, top_p), -1), 1, generator=generator).squeeze(
            -1
        )

    rows = _Sampled(numbers, symbols, longest, prefixes, draws)
    rows.draw = draw
    return rows


def limit_scores(scores: LogP, top_k: int | None, top_p: float | None) -> LogP:
    """−∞ for all but the k highest scores of a row, and but the fewest whose probability reaches p."""
    if top_k is not None and top_k < scores.shape[-1]:
        scores = scores.masked_fill(scores < scores.topk(top_k, -1).values[:, -1:], -math.inf)
    if top_p is not None:
        ordered, index = scores.sort(-1, descending=True)
        probability = torch.softmax(ordered, -1)
        beyond = probability.cumsum(-1) - probability >= top_p  # what stands before reaches top_p already
        scores = scores.masked_fill(torch.zeros_like(beyond).scatter(-1, index, beyond), -math.inf)
    return scores


class _Rows(SearchState):
    """``draws`` hypotheses a sentence, a row each, token by token; they leave together."""

    def __init__(
        self,
        numbers: Sequence[int],
        symbols: Symbols,
        longest: Int[Tensor, "rows"],
        prefixes: Prefixes | None,
        draws: int = 1,
    ) -> None:
        self.symbols, self.draws = symbols, draws
        begins = [()] * len(numbers) if prefixes is None else prefixes
        each = [row for row in zip(numbers, longest.tolist(), begins, strict=True) for _ in range(draws)]
        self.alive = [number for number, _, _ in each]
        self._outputs = [_Output(symbols.end, limit, begin) for _, limit, begin in each]
        self._last = torch.full((len(each),), symbols.begin, dtype=torch.int64, device=longest.device)
        self._finished: list[Found] = []

    def tokens(self) -> Int[Tensor, "rows 1"]:
        return self._last[:, None]

    def _gain(
        self, log_p: LogP, chosen: Int[Tensor, "rows"], rows: slice
    ) -> tuple[Int[Tensor, "rows"], Float[Tensor, "rows"]]:
        """What these rows say, whatever prefix they have included, and its log probability."""
        for row, output in enumerate(self._outputs[rows]):
            if (forced := output.forced()) is not None:
                chosen[row] = forced
        return chosen, log_p.gather(1, chosen[:, None]).squeeze(1)

    def _take(self, chosen: Int[Tensor, "rows"], gained: Float[Tensor, "rows"], state: State) -> State:
        for output, token, gain in zip(self._outputs, chosen.tolist(), gained.tolist(), strict=True):
            output.take(token, gain)
        self._last = chosen
        stays: list[int] = []
        for first in range(0, len(self.alive), self.draws):
            rows = range(first, first + self.draws)
            if all(self._outputs[row].over for row in rows):
                ended = [self._outputs[row].hypothesis() for row in rows]
                self._finished.append((self.alive[first], sorted(ended, key=lambda output: -output.score)))
            else:
                stays += rows
        return self._keep(stays, state)

    def drop(self, numbers: Collection[int], state: State) -> State:
        return self._keep([row for row, number in enumerate(self.alive) if number not in numbers], state)

    def _keep(self, stays: list[int], state: State) -> State:
        if len(stays) == len(self.alive):
            return state
        self.alive, self._outputs = [self.alive[row] for row in stays], [self._outputs[row] for row in stays]
        kept = torch.tensor(stays, dtype=torch.int64, device=self._last.device)
        self._last = self._last[kept]
        return select(state, kept) if stays else state

    def join(self, other: SearchState) -> None:
        assert isinstance(other, _Rows)
        self.alive, self._outputs = self.alive + other.alive, self._outputs + other._outputs
        self._last = torch.cat([self._last, other._last])
        self._finished += other._finished

    def finished(self) -> list[Found]:
        found, self._finished = self._finished, []
        return found


class _Greedy(_Rows):
    """The most probable token of each row, found while it is read."""

    def read(self, log_p: LogP, rows: slice) -> tuple[Tensor, ...]:
        return self._gain(log_p, best_types(log_p, 1, self.symbols.never)[1][:, 0], rows)

    def grow(self, read: tuple[Tensor, ...], state: State) -> State:
        chosen, gained = read
        return self._take(chosen, gained, state)


class _Sampled(_Rows):
    """A draw for each row, from all rows at once: what is drawn does not depend on how they are handed over."""

    draw: Callable[[LogP], Int[Tensor, "rows"]]

    def read(self, log_p: LogP, rows: slice) -> tuple[Tensor, ...]:
        return (log_p,)

    def grow(self, read: tuple[Tensor, ...], state: State) -> State:
        (log_p,) = read
        return self._take(*self._gain(log_p, self.draw(log_p), slice(0, len(log_p))), state)


class _Output:
    """What one row has said; once it is ``over`` it hears no more."""

    def __init__(self, end: int, limit: int, prefix: Sequence[int]) -> None:
        self.end, self.limit, self.prefix = end, limit, prefix
        self.tokens: list[int] = []
        self.gains: list[float] = []
        self.ended = False

    @property
    def over(self) -> bool:
        return self.ended or len(self.gains) >= self.limit

    def forced(self) -> int | None:
        """What the prefix wants next."""
        at = len(self.gains)
        return self.prefix[at] if at < len(self.prefix) else None

    def take(self, token: int, gain: float) -> None:
        if self.over:
            return
        self.gains.append(gain)
        self.ended = token == self.end
        if not self.ended:
            self.tokens.append(token)

    def hypothesis(self) -> Hypothesis:
        total = sum(self.gains)
        return Hypothesis(self.tokens, total, total, self.gains, self.ended)


def best_types(
    log_p: LogP, count: int, never: Sequence[int] = ()
) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """Log probability and number of the ``count`` best types of each row, best first; −∞ for one of ``never``.

    Of many types, the best of a row lie in the chunks with the highest maxima, and finding maxima is cheap.
    """
    count = min(count, log_p.shape[1])
    value, token = _top(log_p, count)
    if never and not set(never).isdisjoint(token.flatten().tolist()):  # which a trained model hardly does
        value, token = _top(log_p, min(count + len(never), log_p.shape[1]))
        barred = torch.isin(token, token.new_tensor(never))
        value, place = value.masked_fill(barred, -math.inf).topk(count, -1)
        token = token.gather(1, place)
    return value, token


def _top(log_p: LogP, count: int) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    many = log_p.shape[1] >= max(LARGE, 4 * CHUNK * count)
    return _top_of_many(log_p, count) if many else log_p.topk(count, -1)


def _top_of_many(log_p: LogP, count: int) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    rows, types = log_p.shape
    if rows == count == 1:
        return log_p.max(-1, keepdim=True)
    whole = types // CHUNK * CHUNK
    chunks = log_p[:, :whole].unflatten(1, (-1, CHUNK))
    highest = chunks.amax(-1).topk(count, -1, sorted=False).indices
    candidates = chunks[torch.arange(rows, device=log_p.device)[:, None], highest].flatten(1)
    number = (highest[..., None] * CHUNK + torch.arange(CHUNK, device=log_p.device)).flatten(1)
    rest = torch.arange(whole, types, device=log_p.device).expand(rows, -1)
    value, place = torch.cat([candidates, log_p[:, whole:]], 1).topk(count, -1)
    return value, torch.cat([number, rest], 1).gather(1, place)
