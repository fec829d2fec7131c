"""A language model for a search: prompts are read, and each row is continued within windows of a context."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.config.settings import ChoiceConfig
from regard.core.state import State, join, repeat, select, truncate
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, UNKNOWN
from regard.inference.search_model import SearchInput, WatchBeam, require_probabilities, start_search
from regard.search.contract import ChunkedStep, Reduce, StatePair, Symbols, chunked

SYMBOLS = Symbols(BEGIN, END, suppressed=(PAD, BEGIN, UNKNOWN))
READ_AT_ONCE = 1 << 24  # maximum number of log-probabilities in memory while prompts are read together
LogPNext = Float[Tensor, "rows types"]


class DecodedModel(Protocol):
    """A language model, or anything with its decoding interface."""

    def start(self, rows: int) -> State:
        """Return the state before the first token."""

    def step(
        self, tokens: Int[Tensor, "rows length"], state: State
    ) -> tuple[Float[Tensor, "rows length types"], State]:
        """Return the log-probabilities of the token after each position, and the new state."""


class PromptState(NamedTuple):
    """Rows of texts: the model's state, the number of tokens in it, and the last tokens of each text.

    ``following``: log-probabilities of the next token for texts that were just read; the next step then needs no pass.
    ``texts`` is empty if the model has a bounded context.
    """

    state: State
    lengths: list[int]
    texts: list[list[int]]
    following: LogPNext | None = None

    def select(self, rows: Int[Tensor, "rows"]) -> PromptState:
        """Return the state of these rows. Texts are copied, since repeated rows continue differently."""
        numbers = rows.tolist()
        following = None if self.following is None else self.following[rows]
        lengths, texts = [self.lengths[row] for row in numbers], [list(self.texts[row]) for row in numbers]
        return PromptState(select(self.state, rows), lengths, texts, following)

    def repeat(self, times: int) -> PromptState:
        """Return the state with each row repeated ``times`` times."""
        following = None if self.following is None else repeat(self.following, times)
        texts = [list(text) for text in self.texts for _ in range(times)]
        return PromptState(repeat(self.state, times), [n for n in self.lengths for _ in range(times)], texts, following)

    def join(self, states: Sequence[PromptState]) -> PromptState:
        """Return the rows of several states; either all have ``following`` or none has."""
        following = [part.following for part in states if part.following is not None]
        return PromptState(
            join([part.state for part in states]),
            [length for part in states for length in part.lengths],
            [text for part in states for text in part.texts],
            torch.cat(following) if following else None,
        )


class PromptDecoding:
    """A ``SearchModel`` whose rows see at most ``context`` tokens; beyond, the last half is read again."""

    def __init__(self, model: DecodedModel, *, context: int | None, types: int, device: torch.device) -> None:
        """Prepare a model.

        Args:
            model: the language model.
            context: maximum number of tokens that a prediction sees; None for a model with a bounded context of its
                own.
            types: size of the vocabulary.
            device: device of the model.
        """
        self.model, self.context, self.device = model, context or sys.maxsize, device
        self._chunked_step: ChunkedStep = getattr(model, "chunked_step", None) or chunked(model.step)
        self._at_once = max(READ_AT_ONCE // types, 1)
        self._keeps_texts = context is not None
        self._pads = True

    @torch.no_grad()
    def open(
        self, ids: Sequence[int], inputs: Sequence[SearchInput], settings: ChoiceConfig, watch: WatchBeam | None = None
    ) -> StatePair:
        """See ``SearchModel``. ``inputs``: prompts. ``settings.length``: maximum number of tokens of each output."""
        length: int = settings.length  # type: ignore[attr-defined]
        longest = torch.full((len(inputs),), length, dtype=torch.int64, device=self.device)
        search_state, rows = start_search(
            ids, inputs, settings, SYMBOLS, max_lengths=longest, continues=True, watch=watch
        )
        state = self.read([list(input.tokens) for input in inputs])
        return search_state, state if rows == 1 else state.repeat(rows)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "rows 1"], state: PromptState, reduce: Reduce
    ) -> tuple[tuple[Tensor, ...], PromptState]:
        """See ``ChunkedStep``. ModelError if the model computes no probabilities."""
        if state.following is not None:
            reduced = reduce(state.following, slice(0, len(state.following)))
            state = state._replace(following=None)
        else:
            reduced, state = self._fed(tokens, state, reduce)
        require_probabilities(reduced)
        return reduced, state

    def read(self, texts: Sequence[list[int]]) -> PromptState:
        """Read whole texts; of texts longer than the context, the last half of it. Equal texts are read once."""
        half = max(self.context // 2, 1)
        windows = [tuple(text if len(text) <= self.context else text[-half:]) for text in texts]
        row_of_window = {window: row for row, window in enumerate(dict.fromkeys(windows))}
        state = self._read([list(window) for window in row_of_window])
        rows = [row_of_window[window] for window in windows]
        return state if rows == list(range(len(row_of_window))) else state.select(self._tensor(rows))

    def _fed(
        self, tokens: Int[Tensor, "rows 1"], state: PromptState, reduce: Reduce
    ) -> tuple[tuple[Tensor, ...], PromptState]:
        """Feed each row a token. Rows whose window is full read its last half and the token."""
        if self._keeps_texts:
            for text, token in zip(state.texts, tokens[:, 0].tolist(), strict=True):
                text.append(token)
        full = [row for row, length in enumerate(state.lengths) if length >= self.context]
        if not full:
            reduced, after = self._chunked_step(tokens, state.state, reduce)
            return reduced, state._replace(state=after, lengths=[length + 1 for length in state.lengths])
        refilled = self.read([state.texts[row] for row in full])
        unfilled = [row for row in range(len(tokens)) if row not in set(full)]
        if unfilled:
            index = self._tensor(unfilled)
            rest = state.select(index)
            log_p, after = self.model.step(tokens[index], rest.state)
            lengths = [length + 1 for length in rest.lengths]
            rest = PromptState(after, lengths, rest.texts, log_p[:, -1])
            refilled = rest.join([rest, refilled])
        order = sorted(range(len(tokens)), key=(unfilled + full).__getitem__)
        refilled = refilled.select(self._tensor(order)) if unfilled else refilled
        assert refilled.following is not None
        return reduce(refilled.following, slice(0, len(tokens))), refilled._replace(following=None)

    def _read(self, texts: Sequence[list[int]]) -> PromptState:
        groups = list(self._groups([len(text) for text in texts]))
        order = [row for rows in groups for row in rows]
        states = [self._read_together([texts[row] for row in rows]) for rows in groups]
        if len(states) == 1:
            return states[0]
        return states[0].join(states).select(self._tensor(sorted(range(len(order)), key=order.__getitem__)))

    def _groups(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield groups of rows to read together.

        A group has a bounded number of tokens, and lengths within a factor of two, or equal lengths.
        """
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for row, length in enumerate(lengths):
            groups[length.bit_length() if self._pads else length].append(row)
        for rows in groups.values():
            size = max(self._at_once // max(lengths[row] for row in rows), 1)
            yield from (rows[begin : begin + size] for begin in range(0, len(rows), size))

    def _read_together(self, texts: Sequence[list[int]]) -> PromptState:
        lengths = [len(text) for text in texts]
        padded = [text + [PAD] * (max(lengths) - len(text)) for text in texts]
        log_p, state = self.model.step(self._tensor(padded), self.model.start(len(texts)))
        if min(lengths) < max(lengths):
            try:
                state = truncate(state, self._tensor(lengths))
            except TypeError:  # the state cannot be truncated to drop the padding
                self._pads = False
                return self._read(texts)
        last = self._tensor([length - 1 for length in lengths])
        following = log_p[torch.arange(len(texts), device=self.device), last]
        return PromptState(state, lengths, [list(text) if self._keeps_texts else [] for text in texts], following)

    def _tensor(self, numbers: Sequence[int] | Sequence[list[int]]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self.device)
