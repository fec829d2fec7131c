"""Greedy search: the most probable next token, again and again."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Int
from torch import Tensor

from regard.core.state import State
from regard.search.batch_search import in_order, search
from regard.search.best_types import BestTypes
from regard.search.contract import Hypothesis, Prefixes, Reduce, SearchState, Step, Symbols, chunked
from regard.search.row_state import RowState

__all__ = ["greedy_search", "start_greedy"]


def greedy_search(
    step: Step, state: State, symbols: Symbols, *, max_lengths: Int[Tensor, "rows"], prefixes: Prefixes | None = None
) -> list[Hypothesis]:
    """The greedy output of each row, of at most ``max_lengths`` tokens each."""
    search_state = start_greedy(range(len(max_lengths)), symbols, max_lengths=max_lengths, prefixes=prefixes)
    finished = search(chunked(step), (search_state, state))
    return [hypothesis for (hypothesis,) in in_order(finished, len(max_lengths))]


def start_greedy(
    ids: Sequence[int], symbols: Symbols, *, max_lengths: Int[Tensor, "rows"], prefixes: Prefixes | None = None
) -> SearchState:
    """The state of a greedy search before its first step, one row a sentence."""
    return _GreedyState(ids, symbols, max_lengths, prefixes)


class _GreedyState(RowState):
    """The most probable token of each row."""

    @property
    def reduce(self) -> Reduce:
        forced = self.forced()
        ahead = 1 if forced else self.left()
        return BestTypes(1, self.symbols.suppressed, forced, ahead, self.symbols.end)

    def advance(self, reduced: tuple[Tensor, ...], model_state: State) -> State:
        token_log_probs, chosen = reduced
        return self.append(chosen, token_log_probs, model_state)
