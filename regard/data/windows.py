"""Windows of token streams as examples of a language model: every token is predicted once an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.task import ExampleIndices, Indices
from regard.data.stream import Stream
from regard.data.tokenizers.tokenizer import PAD

__all__ = ["TokenBatch", "WindowExamples"]


class TokenBatch(NamedTuple):
    """Windows of tokens; a column beyond the end of a window is PAD and not valid. ``weight`` counts targets."""

    input: Tensor  # (rows, length) int64
    target: Tensor  # (rows, length) int64: the token after each input
    valid: Tensor  # (rows, length) bool
    index: Tensor  # type: ignore[assignment]  # (rows,); hides tuple.index
    weight: float


class WindowExamples:
    """Windows of ``context`` tokens over several streams, as ``core.task.Examples``.

    Window k of a stream of n + 1 tokens predicts the tokens k · context + 1 … of it, so that each token but the first
    is predicted once an epoch. In training the windows of epoch e begin ``shift(e)`` tokens earlier, drawn from
    (seed, stream, e), so that the tokens at the head of a window, which see little before them, are others each time.
    """

    def __init__(self, streams: Sequence[Stream], *, context: int, tokens: int, seed: int) -> None:
        self.streams, self.context, self.rows, self.seed = list(streams), context, max(tokens // context, 1), seed
        # One window more than evaluation needs: a shift may cut one in two.
        self._counts = np.array([-(-(len(stream) - 1) // context) + 1 for stream in self.streams])
        self._first = np.concatenate([[0], np.cumsum(self._counts)])

    def __len__(self) -> int:
        return int(self._first[-1])

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """See ``core.task.Examples``; in training in an order drawn from (seed, epoch), without replacement."""
        visit = 0 if epoch is None else epoch + 1
        index = np.flatnonzero(self._lengths(visit))
        if epoch is not None:
            index = np.random.default_rng((self.seed, epoch)).permutation(index)
        cut = [index[at : at + self.rows] for at in range(0, len(index), self.rows)]
        return [ExampleIndices(each, np.full(len(each), visit)) for each in cut]

    def token_counts(self) -> npt.NDArray[np.int64]:
        """(examples,): targets of each window where nothing is shifted."""
        return self._lengths(0)

    def collate(self, examples: ExampleIndices) -> TokenBatch:
        windows = [self._window(int(i), int(v)) for i, v in zip(*examples, strict=True)]
        width = max(len(window) for window in windows) - 1
        padded = np.full((len(windows), width + 1), PAD, np.int64)
        for row, window in enumerate(windows):
            padded[row, : len(window)] = window
        lengths = np.array([len(window) - 1 for window in windows])
        tokens, valid = torch.from_numpy(padded), torch.from_numpy(np.arange(width) < lengths[:, None])
        index = torch.from_numpy(np.asarray(examples.index, np.int64))
        return TokenBatch(tokens[:, :-1], tokens[:, 1:], valid, index, float(lengths.sum()))

    def where(self, index: int) -> str:
        """The file, and where in it the window begins, in tokens."""
        stream, window = self._find(index)
        return f"{self.streams[stream].name}: token {window * self.context:,}"

    def texts_begun(self, indices: Indices) -> list[Stream]:
        """The texts whose first windows are among these: over all windows, each text once."""
        chosen = {int(index) for index in indices}
        return [stream for stream, first in zip(self.streams, self._first[:-1], strict=True) if int(first) in chosen]

    def _find(self, index: int) -> tuple[int, int]:
        stream = int(np.searchsorted(self._first, index, side="right")) - 1
        return stream, int(index - self._first[stream])

    def _shift(self, stream: int, visit: int) -> int:
        """Evaluation, visit 0, shifts nothing."""
        if visit == 0:
            return 0
        return int(np.random.default_rng((self.seed, stream, visit)).integers(self.context))

    def _bounds(self, stream: int, window: npt.NDArray[np.int64], visit: int) -> tuple[Indices, Indices]:
        begin = window * self.context - self._shift(stream, visit)
        last = len(self.streams[stream]) - 1
        return np.clip(begin, 0, last), np.clip(begin + self.context, 0, last)

    def _lengths(self, visit: int) -> npt.NDArray[np.int64]:
        bounds = [self._bounds(stream, np.arange(count), visit) for stream, count in enumerate(self._counts)]
        return np.concatenate([end - begin for begin, end in bounds]).astype(np.int64)

    def _window(self, index: int, visit: int) -> npt.NDArray[np.int64]:
        stream, number = self._find(index)
        begin, end = self._bounds(stream, np.array([number]), visit)
        return self.streams[stream].tokens[int(begin[0]) : int(end[0]) + 1].astype(np.int64)
