"""Search of independent rows: each row is one output that grows by its own choices, token by token, until it ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from itertools import groupby

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.state import State, select
from regard.search.batch_search import in_order, search
from regard.search.best_types import BestTypes
from regard.search.choice import GREEDY, Chooser, TokenChoice, choose_tokens
from regard.search.contract import (
    Finished,
    Hypothesis,
    LogP,
    Prefixes,
    Reduce,
    SearchState,
    Step,
    Symbols,
    chunked,
)
from regard.search.draws import Draws


class TokenListener(ABC):
    """Receiver of the tokens of one output, in order.

    ``alternatives``: number of most probable tokens to report with each token. ``count``: tokens received so far.
    """

    alternatives: int = 0
    count: int = 0

    @abstractmethod
    def add(self, token: int, log_probability: float, alternatives: Sequence[tuple[int, float]]) -> bool:
        """Receive the next token, including the end symbol. Return whether the output ends with it."""


def row_search(
    step: Step,
    state: State,
    symbols: Symbols,
    *,
    max_lengths: Int[Tensor, "rows"],
    prefixes: Prefixes | None = None,
    choice: TokenChoice = GREEDY,
    seed: int = 0,
) -> list[Hypothesis]:
    """Return one output for each row; greedy by default.

    Log-probabilities of the outputs are the model's own, before penalties, temperature and limits.

    Args:
        step: the model's step.
        state: the model state of one row per sentence.
        symbols: the special tokens.
        max_lengths: maximum tokens of each output, including the end symbol.
        prefixes: tokens that the outputs must begin with.
        choice: how tokens are chosen.
        seed: of the draws of row number i, which are those of ``Draws(seed, 0, [i])``.
    """
    ids = range(len(max_lengths))
    draws = [Draws(seed, 0, [id]) for id in ids] if choice.draws else None
    rows = start_rows(ids, symbols, max_lengths=max_lengths, prefixes=prefixes, choice=choice, draws=draws)
    return [hypothesis for (hypothesis,) in in_order(search(chunked(step), (rows, state)), len(max_lengths))]


def start_rows(
    ids: Sequence[int],
    symbols: Symbols,
    *,
    max_lengths: Int[Tensor, "sentences"],
    prefixes: Prefixes | None = None,
    choice: TokenChoice = GREEDY,
    samples: int = 1,
    draws: Sequence[Draws] | None = None,
    histories: Sequence[Sequence[int]] | None = None,
    listeners: Sequence[TokenListener | None] | None = None,
) -> SearchState:
    """Return the state of a search by rows before its first step.

    Args:
        ids: one id per sentence.
        symbols: the special tokens.
        max_lengths: maximum tokens of each sentence's outputs, including the end symbol.
        prefixes: tokens that the outputs of each sentence must begin with.
        choice: how tokens are chosen.
        samples: outputs, and rows of the model state, of each sentence.
        draws: random numbers of each output, sentence by sentence; None for a choice without sampling.
        histories: tokens before the outputs of each sentence that penalties count, such as those of a prompt.
        listeners: receivers of the tokens of each output, sentence by sentence; None for an output without one.
    """
    outputs = []
    for number, (id, limit) in enumerate(zip(ids, max_lengths.tolist(), strict=True)):
        begin = prefixes[number] if prefixes else ()
        history = histories[number] if histories else ()
        for output in range(number * samples, (number + 1) * samples):
            chooser = Chooser(choice, draws[output] if draws else None, history)
            outputs.append(_Output(id, symbols.end, limit, begin, chooser, listeners[output] if listeners else None))
    return RowSearch(outputs, symbols, max_lengths.device)


class RowSearch(SearchState):
    """Outputs in progress, one row each. The rows of a sentence leave together, when all of them have ended.

    Decoders share the memory of a sentence among its rows, which is cheap while all sentences have equal numbers of
    rows.
    """

    def __init__(self, outputs: list[_Output], symbols: Symbols, device: torch.device) -> None:
        self.symbols, self._outputs = symbols, outputs
        self.active_ids = [output.id for output in outputs]
        self._last = torch.full((len(outputs),), symbols.begin, dtype=torch.int64, device=device)
        self._finished: list[Finished] = []

    def tokens(self) -> Int[Tensor, "rows 1"]:
        return self._last[:, None]

    @property
    def _is_plain(self) -> bool:
        """Return whether every row needs its most probable token only."""
        return all(output.chooser.choice.is_plain and not output.alternatives for output in self._outputs)

    def _forced(self) -> list[Sequence[int]]:
        """Return the tokens that a prefix forces on each row from now on; empty if no row has one."""
        forced = [output.forced() for output in self._outputs]
        return forced if any(forced) else []

    @property
    def reduce(self) -> Reduce:
        if not self._is_plain:
            return lambda log_p, rows: (log_p,)
        forced = self._forced()
        has_listener = any(output.listener is not None for output in self._outputs)
        ahead = min((output.left for output in self._outputs), default=1)
        if has_listener:  # it may end an output at any token that is not forced
            ahead = min(ahead, max(min(map(len, forced), default=1), 1))
        return BestTypes(1, self.symbols.suppressed, forced, ahead, self.symbols.end)

    def advance(self, reduced: tuple[Tensor, ...], model_state: State) -> State:
        if len(reduced) == 2:
            token_log_probs, chosen = reduced
            return self._append(chosen, token_log_probs, None, model_state)
        (log_p,) = reduced
        tokens = choose_tokens(log_p, [output.chooser for output in self._outputs], self.symbols.suppressed)
        for row, forced in enumerate(self._forced()):
            if forced:
                tokens[row] = forced[0]
        return self._append(tokens[:, None], log_p.gather(1, tokens[:, None]), log_p, model_state)

    def _append(
        self,
        chosen: Int[Tensor, "rows tokens"],
        token_log_probs: Float[Tensor, "rows tokens"],
        log_p: LogP | None,
        model_state: State,
    ) -> State:
        """Append the chosen tokens to every row. Return the model state of the remaining rows."""
        rows = zip(self._outputs, chosen.tolist(), token_log_probs.tolist(), strict=True)
        for row, (output, tokens, log_probs) in enumerate(rows):
            likely = most_probable(log_p[row], output.alternatives) if log_p is not None else []
            for token, log_prob in zip(tokens, log_probs, strict=True):
                output.append(token, log_prob, likely)
        self._last = chosen[:, -1]
        active: list[int] = []
        for id, group in groupby(range(len(self._outputs)), key=self.active_ids.__getitem__):
            numbers = list(group)
            outputs = [self._outputs[row] for row in numbers]
            if all(output.is_over for output in outputs):
                hypotheses = [output.hypothesis() for output in outputs]
                self._finished.append((id, sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)))
            else:
                active += numbers
        return self._keep(active, model_state)

    def drop(self, ids: Collection[int], model_state: State) -> State:
        return self._keep([row for row, id in enumerate(self.active_ids) if id not in ids], model_state)

    def _keep(self, rows: list[int], model_state: State) -> State:
        if len(rows) == len(self._outputs):
            return model_state
        self._outputs = [self._outputs[row] for row in rows]
        self.active_ids = [output.id for output in self._outputs]
        index = torch.tensor(rows, dtype=torch.int64, device=self._last.device)
        self._last = self._last[index]
        return select(model_state, index) if rows else model_state

    def join(self, other: SearchState) -> None:
        assert isinstance(other, RowSearch)
        self._outputs = self._outputs + other._outputs
        self.active_ids = self.active_ids + other.active_ids
        self._last = torch.cat([self._last, other._last])
        self._finished += other._finished

    def take_finished(self) -> list[Finished]:
        finished, self._finished = self._finished, []
        return finished


class _Output:
    """Tokens of one row; they do not change once it ``is_over``."""

    def __init__(
        self, id: int, end: int, limit: int, prefix: Sequence[int], chooser: Chooser, listener: TokenListener | None
    ) -> None:
        self.id, self.end, self.limit, self.prefix = id, end, limit, prefix
        self.chooser, self.listener = chooser, listener
        self.alternatives = 0 if listener is None else listener.alternatives
        self.tokens: list[int] = []
        self.token_log_probs: list[float] = []
        self.ended = False

    @property
    def is_over(self) -> bool:
        return self.ended or len(self.token_log_probs) >= self.limit

    @property
    def left(self) -> int:
        """The maximum number of further tokens; at least 1, since others of its sentence may continue."""
        return max(self.limit - len(self.token_log_probs), 1)

    def forced(self) -> Sequence[int]:
        """Return the rest of the prefix."""
        return self.prefix[len(self.token_log_probs) :]

    def append(self, token: int, log_prob: float, likely: Sequence[tuple[int, float]]) -> None:
        if self.is_over:
            return
        self.token_log_probs.append(log_prob)
        self.chooser.append(token)
        self.ended = token == self.end
        if not self.ended:
            self.tokens.append(token)
        if self.listener is not None:
            self.listener.count += 1
            self.ended = self.listener.add(token, log_prob, likely) or self.ended

    def hypothesis(self) -> Hypothesis:
        total = sum(self.token_log_probs)
        return Hypothesis(self.tokens, total, total, self.token_log_probs, self.ended)


def most_probable(log_p: Float[Tensor, "types"], count: int) -> list[tuple[int, float]]:
    """Return the ``count`` most probable tokens of a row with their log-probabilities, best first."""
    if not count:
        return []
    values, tokens = log_p.topk(min(count, len(log_p)))
    return list(zip(tokens.tolist(), values.tolist(), strict=True))
