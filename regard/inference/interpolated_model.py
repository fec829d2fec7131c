"""A language model whose distribution is interpolated with that of n-grams, with the interface of decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.state import State, join, repeat, select, truncate
from regard.inference.prompt_decoding import DecodedModel
from regard.models.ngram_gate import NgramGate


class NgramDistribution(Protocol):
    """N-grams: ``baselines.ngrams.NgramBaseline``."""

    @property
    def longest(self) -> int:
        """Maximum number of tokens of a context."""

    def next_probabilities(
        self, recent: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Return (texts, types) probabilities of the next token, and (texts,) buckets."""


class InterpolatedState(NamedTuple):
    """The state of the network, and the tokens that each row has read: all of the last step, and a context before."""

    state: State
    read: list[list[int]]
    before: list[int]  # number of tokens of ``read`` that were read before the last step

    def select(self, rows: Int[Tensor, "rows"]) -> InterpolatedState:
        numbers = rows.tolist()
        read, before = [self.read[row] for row in numbers], [self.before[row] for row in numbers]
        return InterpolatedState(select(self.state, rows), read, before)

    def repeat(self, times: int) -> InterpolatedState:
        read = [tokens for tokens in self.read for _ in range(times)]
        return InterpolatedState(repeat(self.state, times), read, [n for n in self.before for _ in range(times)])

    def join(self, states: Sequence[InterpolatedState]) -> InterpolatedState:
        read = [tokens for part in states for tokens in part.read]
        return InterpolatedState(
            join([part.state for part in states]), read, [n for part in states for n in part.before]
        )

    def truncate(self, length: Int[Tensor, "batch"]) -> InterpolatedState:
        """Return the state after ``length`` positions of rows that have read one step since the start."""
        if any(self.before):
            raise TypeError("the state cannot be truncated: keep the earlier state instead")
        read = [tokens[:end] for tokens, end in zip(self.read, length.tolist(), strict=True)]
        return InterpolatedState(truncate(self.state, length), read, self.before)


class InterpolatedModel:
    """A ``DecodedModel`` whose log-probabilities are those of ``models.ngram_gate.NgramGate``."""

    def __init__(self, model: DecodedModel, ngrams: NgramDistribution, gate: NgramGate) -> None:
        self.model, self.ngrams, self.gate = model, ngrams, gate

    def start(self, rows: int) -> InterpolatedState:
        """Return the state before the first token."""
        return InterpolatedState(self.model.start(rows), [[] for _ in range(rows)], [0] * rows)

    def step(
        self, tokens: Int[Tensor, "rows length"], state: InterpolatedState
    ) -> tuple[Float[Tensor, "rows length types"], InterpolatedState]:
        """Return the log-probabilities of the token after each position, and the new state."""
        log_p, inner = self.model.step(tokens, state.state)
        longest, (rows, length) = self.ngrams.longest, tokens.shape
        context = [read[max(len(read) - longest, 0) :] for read in state.read]
        read = [before + new for before, new in zip(context, tokens.tolist(), strict=True)]
        recent = np.full((rows, length, longest), -1)
        for row, (before, sequence) in enumerate(zip(context, read, strict=True)):
            padded = np.array([-1] * (longest - len(before)) + sequence)
            windows = np.lib.stride_tricks.sliding_window_view(padded, longest) if longest else recent[row]
            recent[row] = windows[len(windows) - length :, ::-1]
        probabilities, buckets = self.ngrams.next_probabilities(recent.reshape(rows * length, longest))
        ngrams = torch.from_numpy(np.log(probabilities)).to(log_p).view(log_p.shape)
        bucket = torch.from_numpy(buckets).to(log_p.device).view(rows, length)
        with torch.no_grad():
            mixed = self.gate(log_p, ngrams, bucket)
        return mixed, InterpolatedState(inner, read, [len(before) for before in context])
