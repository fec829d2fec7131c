"""Types that every search shares: the model's step, special symbols, outputs, and the state of a search.

A search calls a model through one function, ``step: (tokens, state) -> (log_probs, state)``, or through a
``ChunkedStep``, which passes on the log-probabilities of a few rows at a time. Lengths include the end symbol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from regard.core.state import State

LogP = Float[Tensor, "rows types"]
Step = Callable[[Int[Tensor, "rows length"], State], tuple[Float[Tensor, "rows length types"], State]]
# (log-probabilities of consecutive rows, their slice of all rows) → the tensors that the search needs.
Reduce = Callable[[LogP, slice], tuple[Tensor, ...]]
# A step that reduces the rows chunk by chunk while each chunk is in the cache; returns the reduced tensors of all rows,
# concatenated, and the model state.
ChunkedStep = Callable[[Int[Tensor, "rows 1"], State, Reduce], tuple[tuple[Tensor, ...], State]]
Prefixes = Sequence[Sequence[int]]  # per sentence, the tokens that its outputs must begin with


class Symbols(NamedTuple):
    """Special tokens.

    Attributes:
        begin: the first input.
        end: ends an output.
        suppressed: tokens that are never produced.
    """

    begin: int
    end: int
    suppressed: tuple[int, ...] = ()


class Hypothesis(NamedTuple):
    """One output of a search.

    Attributes:
        tokens: its tokens, without begin and end.
        log_probability: log P(output | input) in nats.
        score: the value it was ranked by.
        token_log_probabilities: of each token in nats; that of the end symbol is last.
        finished: False if the length limit truncated it.
    """

    tokens: list[int]
    log_probability: float
    score: float
    token_log_probabilities: list[float]
    finished: bool


Finished = tuple[int, list[Hypothesis]]  # a sentence's id and its outputs, best first


class SearchState(ABC):
    """Outputs in progress, one or more rows per sentence, each sentence at its own step.

    ``active_ids``: the ids of the sentences in search, in the order of their rows; an id may occur several times.
    """

    active_ids: list[int]

    @property
    def reads_prefix(self) -> bool:
        """Return whether the next step reads forced tokens only, before the first step of the search."""
        return False

    @abstractmethod
    def tokens(self) -> Int[Tensor, "rows 1"]:
        """Return the next input token of each row."""

    @property
    @abstractmethod
    def reduce(self) -> Reduce:
        """The function from log-probabilities of some rows to the tensors that ``advance`` needs.

        Any function, or ``BestTypes``, which a decoder may implement differently.
        """

    @abstractmethod
    def advance(self, reduced: tuple[Tensor, ...], model_state: State) -> State:
        """Extend every row by one token, from the reduced tensors of all rows.

        Returns the model state of the remaining rows.
        """

    @abstractmethod
    def join(self, other: SearchState) -> None:
        """Append the sentences of ``other``, whose first step must be done."""

    @abstractmethod
    def drop(self, ids: Collection[int], model_state: State) -> State:
        """Stop searching these sentences, finished or not. Returns the model state of the remaining rows."""

    @abstractmethod
    def take_finished(self) -> list[Finished]:
        """Return and drop the sentences that ended since the last call, with their outputs."""


StatePair = tuple[SearchState, State]  # a search and the model state of its rows


def chunked(step: Step) -> ChunkedStep:
    """Return a plain step as a ``ChunkedStep`` with all rows in one chunk."""

    def chunked_step(
        tokens: Int[Tensor, "rows 1"], state: State, reduce: Reduce
    ) -> tuple[tuple[Tensor, ...], State]:  # fmt: skip
        log_p, state = step(tokens, state)
        return reduce(log_p[:, -1], slice(0, len(log_p))), state

    return chunked_step
