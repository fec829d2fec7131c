"""Windows of token streams as examples of a language model: every token is predicted once per epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.task import ExampleIndices, Indices
from regard.data.computed_order import even_batches
from regard.data.stream import Stream
from regard.data.tokenizers.tokenizer import PAD


class TokenBatch(NamedTuple):
    """Windows of tokens. Positions beyond the end are PAD and invalid. ``weight`` counts targets.

    ``loss_mask``: targets that count in the loss, if not all valid ones. ``segment``: number of the document, for rows
    with several documents; ``position`` is the position within it. ``fresh``: rows that begin a text; other rows
    continue the row of the previous batch. ``wide``: the evidence of n-grams for each target, its log-probability and
    its bucket (``baselines.ngrams.Evidence``).
    """

    input: Tensor  # (rows, length) int64
    target: Tensor  # (rows, length) int64: the token after each input
    valid: Tensor  # (rows, length) bool
    index: Tensor  # type: ignore[assignment]  # (rows,); hides tuple.index
    weight: float
    loss_mask: Tensor | tuple[()] = ()  # (rows, length) bool
    segment: Tensor | tuple[()] = ()  # (rows, length) int64
    position: Tensor | tuple[()] = ()  # (rows, length) int64
    fresh: Tensor | tuple[()] = ()  # (rows,) bool
    wide: Tensor | tuple[()] = ()  # (rows, length, 2) float32


class WindowExamples:
    """Windows of ``context`` tokens over several streams, as ``core.task.Examples``.

    Window k of a stream of n + 1 tokens predicts its tokens k · context + 1 …, so each token except the first is
    predicted once per epoch. In training, the windows of epoch e begin ``shift(e)`` tokens earlier, drawn from (seed,
    stream, e). The tokens at the start of a window, which have little context, therefore differ between epochs.

    Evaluation with a ``stride`` below the context has its own windows, numbered after those of training. Each begins
    ``stride`` tokens after the previous one; a token in several windows counts in the first.

    With ``computed``, the order of training is computed batch by batch, in constant memory.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        *,
        context: int,
        tokens: int,
        seed: int,
        stride: int | None = None,
        computed: bool = False,
    ) -> None:
        self.streams, self.context, self.rows, self.seed = list(streams), context, max(tokens // context, 1), seed
        self.stride, self.computed = stride or context, computed
        # One window more than evaluation needs: a shift may split one in two.
        counts = [-(-(len(stream) - 1) // context) + 1 for stream in self.streams]
        self._training = sum(counts)
        if self.stride < context:
            counts += [1 + -(-max(len(stream) - 1 - context, 0) // self.stride) for stream in self.streams]
        self._counts = np.array(counts)
        self._first = np.concatenate([[0], np.cumsum(self._counts)])

    def __len__(self) -> int:
        return int(self._first[-1])

    def batches(self, epoch: int | None) -> Sequence[ExampleIndices]:
        """See ``core.task.Examples``. Training uses an order drawn from (seed, epoch), without replacement."""
        if self.computed and epoch is not None:
            first = np.cumsum([0, *(self._number(stream, epoch + 1) for stream in range(len(self.streams)))])

            def numbered(numbers: Indices) -> Indices:
                stream = np.searchsorted(first, numbers, side="right") - 1
                return self._first[stream] + numbers - first[stream]

            return even_batches(int(first[-1]), self.rows, seed=self.seed, epoch=epoch, numbered=numbered)
        visit = 0 if epoch is None else epoch + 1
        index = np.flatnonzero(self._lengths(visit))
        if epoch is None:
            index = index[index >= self._training] if self.stride < self.context else index
        else:
            index = index[index < self._training]
            index = np.random.default_rng((self.seed, epoch)).permutation(index)
        cut = [index[begin : begin + self.rows] for begin in range(0, len(index), self.rows)]
        return [ExampleIndices(batch, np.full(len(batch), visit)) for batch in cut]

    def token_counts(self) -> npt.NDArray[np.int64]:
        """Return (examples,): counted targets of each window, without shifts."""
        return self._lengths(0) - self._seen(np.arange(len(self)))

    def collate(self, examples: ExampleIndices) -> TokenBatch:
        windows = [self._window(int(i), int(v)) for i, v in zip(*examples, strict=True)]
        width = max(len(window) for window in windows) - 1
        padded = np.full((len(windows), width + 1), PAD, np.int64)
        for row, window in enumerate(windows):
            padded[row, : len(window)] = window
        lengths = np.array([len(window) - 1 for window in windows])
        tokens, valid = torch.from_numpy(padded), torch.from_numpy(np.arange(width) < lengths[:, None])
        index = torch.from_numpy(np.asarray(examples.index, np.int64))
        batch = TokenBatch(tokens[:, :-1], tokens[:, 1:], valid, index, float(lengths.sum()))
        seen = self._seen(examples.index)
        if not seen.any():
            return batch
        loss_mask = valid & torch.from_numpy(np.arange(width) >= seen[:, None])
        return batch._replace(loss_mask=loss_mask, weight=float(loss_mask.sum()))

    def where(self, index: int) -> str:
        """Return the file, and the first token of the window in it."""
        group, window = self._find(index)
        distance = self.context if group < len(self.streams) else self.stride
        return f"{self.streams[group % len(self.streams)].name}: token {window * distance:,}"

    def target_positions(self, index: int) -> list[tuple[int, Indices]]:
        """Return the valid targets of an example in evaluation, in the order of the row.

        They are divided into runs of consecutive tokens, each as the number of its text and the positions in it.
        """
        group, window = self._find(index)
        begin, end = self._bounds(group, np.array([window]), 0)
        return [(group % len(self.streams), np.arange(int(begin[0]) + 1, int(end[0]) + 1))]

    def texts_started(self, indices: Indices) -> list[Stream]:
        """Return the texts whose first windows are among these: each text once over all windows."""
        chosen = {int(index) for index in indices}
        firsts = self._first[:-1][-len(self.streams) :]
        return [stream for stream, first in zip(self.streams, firsts, strict=True) if int(first) in chosen]

    def _find(self, index: int) -> tuple[int, int]:
        """Return the group (stream, or stream + number of streams for evaluation windows) and the window in it."""
        group = int(np.searchsorted(self._first, index, side="right")) - 1
        return group, int(index - self._first[group])

    def _seen(self, index: Indices) -> npt.NDArray[np.int64]:
        """Return the number of targets at the start of each window that a previous, overlapping window counts."""
        index = np.asarray(index, np.int64)
        group = np.searchsorted(self._first, index, side="right") - 1
        window = index - self._first[group]
        return np.where((index >= self._training) & (window > 0), self.context - self.stride, 0)

    def _shift(self, stream: int, visit: int) -> int:
        """Return the shift of a stream; 0 for evaluation (visit 0)."""
        if visit == 0:
            return 0
        return int(np.random.default_rng((self.seed, stream, visit)).integers(self.context))

    def _number(self, stream: int, visit: int) -> int:
        """Return the number of nonempty windows of a stream: all, or all except the last."""
        begin, _ = self._bounds(stream, self._counts[stream : stream + 1] - 1, visit)
        return int(self._counts[stream] - (begin[0] >= len(self.streams[stream]) - 1))

    def _bounds(self, group: int, window: npt.NDArray[np.int64], visit: int) -> tuple[Indices, Indices]:
        if group < len(self.streams):
            begin = window * self.context - self._shift(group, visit)
        else:
            begin = window * self.stride
        last = len(self.streams[group % len(self.streams)]) - 1
        return np.clip(begin, 0, last), np.clip(begin + self.context, 0, last)

    def _lengths(self, visit: int) -> npt.NDArray[np.int64]:
        bounds = [self._bounds(group, np.arange(count), visit) for group, count in enumerate(self._counts)]
        return np.concatenate([end - begin for begin, end in bounds]).astype(np.int64)

    def _window(self, index: int, visit: int) -> npt.NDArray[np.int64]:
        group, number = self._find(index)
        begin, end = self._bounds(group, np.array([number]), visit)
        return self.streams[group % len(self.streams)].tokens[int(begin[0]) : int(end[0]) + 1].astype(np.int64)
