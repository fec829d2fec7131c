"""Search of a batch, step by step; finished sentences leave it and others take their place.

``RunningBatch`` advances all sentences by one token and admits new ones between steps. ``search`` keeps a batch filled
from a queue and yields sentences as they finish.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from regard.core.state import State, join
from regard.search.contract import ChunkedStep, Finished, Hypothesis, SearchState, StatePair


class RunningBatch:
    """A batch in search, advanced one token at a time."""

    def __init__(self, step: ChunkedStep) -> None:
        self._step = step
        self._batch: StatePair | None = None

    @property
    def active_ids(self) -> set[int]:
        """The ids of the sentences in search."""
        return set(self._batch[0].active_ids) if self._batch else set()

    def enter(self, new: StatePair) -> None:
        """Run ``first_step`` of new sentences, then join them. All sentences must use one type of search."""
        self.join(self.first_step(new))

    def first_step(self, new: StatePair) -> StatePair:
        """Return new sentences after their first step, before which they read the prefixes that are known of all.

        The running sentences do not change.
        """
        search_state, model_state = new
        starting = bool(search_state.active_ids)
        while starting:
            starting = search_state.reads_prefix
            model_state = self._advanced(search_state, model_state)
        return search_state, model_state

    def join(self, new: StatePair) -> None:
        """Append sentences that have made their first step."""
        search_state, model_state = new
        if self._batch is not None:
            running, before = self._batch
            if running.active_ids and search_state.active_ids:
                model_state = join([before, model_state])
            elif running.active_ids:
                model_state = before
            running.join(search_state)
            search_state = running
        self._batch = search_state, model_state

    def advance(self) -> None:
        """Extend every sentence by one token."""
        if self._batch is not None and self._batch[0].active_ids:
            search_state, model_state = self._batch
            self._batch = search_state, self._advanced(search_state, model_state)

    def drop(self, ids: Collection[int]) -> None:
        """Stop searching these sentences."""
        if self._batch is not None and not self.active_ids.isdisjoint(ids):
            search_state, model_state = self._batch
            self._batch = search_state, search_state.drop(ids, model_state)

    def take_finished(self) -> list[Finished]:
        """Return and drop the sentences that ended since the last call, with their outputs."""
        return self._batch[0].take_finished() if self._batch else []

    def _advanced(self, search_state: SearchState, model_state: State) -> State:
        reduced, model_state = self._step(search_state.tokens(), model_state, search_state.reduce)
        return search_state.advance(reduced, model_state)


def search(
    step: ChunkedStep,
    first: StatePair,
    refill: Callable[[int], StatePair | None] = lambda free: None,
    *,
    capacity: int = 0,
) -> Iterator[Finished]:
    """Yield sentences with their outputs as they finish: see ``search_steps``.

    Args:
        step: the decoder.
        first: a search and the model state of its rows.
        refill: returns at most that number of new sentences for a number of free places; None when the queue is empty.
        capacity: the maximum number of sentences; ``refill`` is called once an eighth of it is free.
    """
    for finished in search_steps(step, first, refill, capacity=capacity):
        yield from finished


def search_steps(
    step: ChunkedStep,
    first: StatePair,
    refill: Callable[[int], StatePair | None] = lambda free: None,
    *,
    capacity: int = 0,
) -> Iterator[list[Finished]]:
    """Yield the sentences that finished, if any, after each step.

    Once an eighth of ``capacity`` sentences is free, ``refill`` is called with the number of free places. It returns at
    most that number of new sentences, or None when the queue is empty.
    """
    running, exhausted = RunningBatch(step), False
    running.enter(first)
    while True:
        yield running.take_finished()
        free = capacity - len(running.active_ids)
        if not exhausted and free >= max(capacity // 8, 1):
            more = refill(free)
            exhausted = more is None
            if more is not None:
                running.enter(more)
                continue
        if not running.active_ids:
            return
        running.advance()


def in_order(finished: Iterator[Finished], count: int) -> list[list[Hypothesis]]:
    """Return the outputs of sentences 0 to ``count`` − 1, in this order."""
    outputs = dict(finished)
    return [outputs[id] for id in range(count)]
