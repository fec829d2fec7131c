"""Reading of prompts of any lengths in one batch, and one token more for each, in windows of a context."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.state import State, join, select, truncate
from regard.data.tokenizers.tokenizer import PAD
from regard.errors import ModelError

__all__ = ["DecodedModel", "Reading", "WindowDecoding", "joined"]

LogPNext = Float[Tensor, "rows types"]
READ_AT_ONCE = 1 << 24  # log-probabilities in memory at most when prompts are read together


class DecodedModel(Protocol):
    """A language model, or anything that decodes as one."""

    def start(self, rows: int) -> State:
        """The state before the first token."""

    def step(
        self, tokens: Int[Tensor, "rows length"], state: State
    ) -> tuple[Float[Tensor, "rows length types"], State]:
        """Log-probabilities of the token after each, and the state after them."""


class Reading:
    """Rows in generation: log-probabilities of the next token of each, the model's state, tokens in that state."""

    def __init__(self, log_p: LogPNext, state: State, lengths: list[int]) -> None:
        self.log_p, self.state, self.lengths = log_p, state, lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def keep(self, rows: Sequence[int]) -> Reading:
        """The reading of these rows, in this order."""
        if list(rows) == list(range(len(self))):
            return self
        index = torch.tensor(rows, dtype=torch.int64, device=self.log_p.device)
        return Reading(self.log_p[index], select(self.state, index), [self.lengths[row] for row in rows])


class WindowDecoding:
    """Rows of a model, none of which sees more than ``context`` tokens: beyond, the last half is read anew."""

    def __init__(self, model: DecodedModel, *, context: int, types: int, device: torch.device) -> None:
        self.model, self.context, self.device = model, context, device
        self._at_once = max(READ_AT_ONCE // types, 1)
        self._pads = True

    def read(self, texts: Sequence[list[int]]) -> Reading:
        """The reading of whole texts, of the last half of a context where they do not fit."""
        half = max(self.context // 2, 1)
        kept = [tuple(text if len(text) <= self.context else text[-half:]) for text in texts]
        place = {text: row for row, text in enumerate(dict.fromkeys(kept))}  # samples of one prompt read it once
        return self._read([list(text) for text in place]).keep([place[text] for text in kept])

    def advance(self, reading: Reading, texts: Sequence[list[int]]) -> tuple[Reading, list[int]]:
        """The reading after the last token of each text, and the rows of ``texts`` in its order."""
        goes_on = [row for row, length in enumerate(reading.lengths) if length < self.context]
        anew = [row for row, length in enumerate(reading.lengths) if length >= self.context]
        found: list[Reading] = []
        if goes_on:
            found.append(self._step([texts[row] for row in goes_on], reading.keep(goes_on)))
        if anew:
            found.append(self.read([texts[row] for row in anew]))
        return joined(found), goes_on + anew

    def _read(self, texts: Sequence[list[int]]) -> Reading:
        groups = list(self._groups([len(text) for text in texts]))
        order = [row for rows in groups for row in rows]
        found = joined([self._read_together([texts[row] for row in rows]) for rows in groups])
        return found.keep(sorted(range(len(order)), key=order.__getitem__))

    def _groups(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Rows to read at once: padded to less than twice their length, or of one length; not too many tokens."""
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for row, length in enumerate(lengths):
            groups[length.bit_length() if self._pads else length].append(row)
        for rows in groups.values():
            size = max(self._at_once // max(lengths[row] for row in rows), 1)
            yield from (rows[at : at + size] for at in range(0, len(rows), size))

    def _read_together(self, texts: Sequence[list[int]]) -> Reading:
        lengths = [len(text) for text in texts]
        padded = [text + [PAD] * (max(lengths) - len(text)) for text in texts]
        log_p, state = self.model.step(self._tensor(padded), self.model.start(len(texts)))
        if min(lengths) < max(lengths):
            try:
                state = truncate(state, self._tensor(lengths))
            except TypeError:  # a memory that cannot forget the padding
                self._pads = False
                return self._read(texts)
        last = self._tensor([length - 1 for length in lengths])
        return Reading(_checked(log_p[torch.arange(len(texts), device=self.device), last]), state, lengths)

    def _step(self, texts: Sequence[list[int]], before: Reading) -> Reading:
        log_p, state = self.model.step(self._tensor([text[-1:] for text in texts]), before.state)
        return Reading(_checked(log_p[:, -1]), state, [length + 1 for length in before.lengths])

    def _tensor(self, numbers: list[int] | list[list[int]]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self.device)


def _checked(log_p: LogPNext) -> LogPNext:
    if bool(log_p[:, 0].isnan().any()):
        raise ModelError("this model computes no probabilities", why="its weights are not finite")
    return log_p


def joined(readings: Sequence[Reading]) -> Reading:
    """Rows of several readings as one, in order."""
    if len(readings) == 1:
        return readings[0]
    log_p = torch.cat([reading.log_p for reading in readings])
    return Reading(log_p, join([reading.state for reading in readings]), [n for each in readings for n in each.lengths])
