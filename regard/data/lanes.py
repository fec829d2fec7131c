"""Lanes of documents: examples of a language model that carries its state from batch to batch."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from regard.core.task import ExampleIndices, Indices
from regard.core.wording import pluralize
from regard.data.document_stream import DocumentStream
from regard.data.stream import Stream
from regard.data.tokenizers.tokenizer import PAD
from regard.data.windows import TokenBatch

Numbers = npt.NDArray[np.int64]


class _Runs(NamedTuple):
    """Parts of texts that are read from beginning to end, shape (runs,) each.

    A run has the tokens ``begin`` … ``end`` of a text; its first ``uncounted`` targets do not count.
    """

    text: Numbers
    begin: Numbers
    end: Numbers
    uncounted: Numbers


def _document_runs(texts: Sequence[Stream | DocumentStream], parts: int) -> _Runs:
    """Return one run for every document; for a text that is a single stream, ``parts`` runs of equal length."""
    columns: list[list[Numbers]] = [[] for _ in range(4)]
    for number, text in enumerate(texts):
        if isinstance(text, DocumentStream):
            begin, end, uncounted = text.offsets[:-1], text.offsets[1:] - 1, text.prompts
        else:
            cut = np.linspace(0, len(text) - 1, min(parts, len(text) - 1) + 1).astype(np.int64)
            begin, end, uncounted = cut[:-1], cut[1:], np.zeros(len(cut) - 1, np.int64)
        for column, values in zip(columns, (np.full(len(begin), number), begin, end, uncounted), strict=True):
            column.append(np.asarray(values, np.int64))
    return _Runs(*(np.concatenate(column) for column in columns))


class _Segments:
    """Segments of at most ``context`` tokens of runs, numbered in the order of the text."""

    def __init__(self, runs: _Runs, context: int) -> None:
        self.runs, self.context = runs, context
        self.counts = -(-(runs.end - runs.begin) // context)
        self.first = np.concatenate([[0], np.cumsum(self.counts)])

    def __len__(self) -> int:
        return int(self.first[-1])

    def bounds(self, index: Indices) -> tuple[Numbers, Numbers, Numbers, Numbers, Numbers]:
        """Return of each segment its run, first token, end, uncounted targets, and whether it begins a run."""
        run = np.searchsorted(self.first, index, side="right") - 1
        place = (np.asarray(index, np.int64) - self.first[run]) * self.context
        begin = self.runs.begin[run] + place
        end = np.minimum(begin + self.context, self.runs.end[run])
        return run, begin, end, np.clip(self.runs.uncounted[run] - place, 0, end - begin), place == 0

    def in_lanes(self, order: Indices, lanes: int) -> list[Indices]:
        """Return the batches: runs go in ``order`` to the shortest lane, and a batch has one segment of every lane.

        The first lane is the longest, so the last lanes end first.
        """
        lane_lengths = [(0, lane) for lane in range(lanes)]
        runs_of_lane: list[list[int]] = [[] for _ in range(lanes)]
        for run in order.tolist():
            length, lane = heapq.heappop(lane_lengths)
            runs_of_lane[lane].append(run)
            heapq.heappush(lane_lengths, (length + int(self.counts[run]), lane))
        lengths = sorted(((length, -lane) for length, lane in lane_lengths if length), reverse=True)
        whole = [
            np.concatenate([np.arange(self.first[run], self.first[run + 1]) for run in runs_of_lane[-lane]])
            for _, lane in lengths
        ]
        longest = len(whole[0]) if whole else 0
        return [np.array([lane[step] for lane in whole if step < len(lane)]) for step in range(longest)]


class LaneExamples:
    """Segments of ``context`` tokens over the documents of several texts, as ``core.task.Examples``.

    A batch has one segment of each of ``tokens`` / ``context`` lanes. A lane reads its documents one after another,
    each from beginning to end; ``TokenBatch.fresh`` marks the rows in which a document begins. The assignment of
    documents to lanes is drawn from (seed, epoch). A text that is a single stream is split into as many parts as there
    are lanes, at the same positions in every epoch. Evaluation reads such a text whole, in its own lane.
    """

    def __init__(
        self,
        streams: Sequence[Stream | DocumentStream],
        *,
        context: int,
        tokens: int,
        seed: int,
        stride: int | None = None,
        computed: bool = False,
    ) -> None:
        self.streams, self.context, self.seed = list(streams), context, seed
        self.lanes = max(tokens // context, 1)
        self._training = _Segments(_document_runs(self.streams, self.lanes), context)
        self._whole = _Segments(_document_runs(self.streams, 1), context)
        self._same = len(self._training.counts) == len(self._whole.counts)

    @property
    def description(self) -> str:
        """Summary of the lanes, for log lines."""
        lanes = f"{pluralize(self.lanes, 'lane')} of {pluralize(self.context, 'token')}"
        return f"{pluralize(len(self._training.counts), 'document')} or parts in {lanes}"

    def __len__(self) -> int:
        return len(self._training) + (0 if self._same else len(self._whole))

    def batches(self, epoch: int | None) -> Sequence[ExampleIndices]:
        """See ``core.task.Examples``."""
        if epoch is None:
            order = np.argsort(-self._whole.counts, kind="stable")  # longest first: lanes get similar lengths
            first = 0 if self._same else len(self._training)
            plan = [first + batch for batch in self._whole.in_lanes(order, self.lanes)]
        else:
            order = np.random.default_rng((self.seed, epoch)).permutation(len(self._training.counts))
            plan = self._training.in_lanes(order, self.lanes)
        visit = 0 if epoch is None else epoch + 1
        return [ExampleIndices(batch, np.full(len(batch), visit)) for batch in plan]

    def token_counts(self) -> npt.NDArray[np.int64]:
        """Return (examples,): counted targets of each segment."""
        all_segments = [self._training] if self._same else [self._training, self._whole]
        bounds = [segments.bounds(np.arange(len(segments))) for segments in all_segments]
        return np.concatenate([end - begin - uncounted for _, begin, end, uncounted, _ in bounds])

    def collate(self, examples: ExampleIndices) -> TokenBatch:
        training = len(self._training)
        evaluating = len(examples.index) > 0 and int(examples.index[0]) >= training
        segments = self._whole if evaluating else self._training
        index = np.asarray(examples.index, np.int64)
        run, begin, end, uncounted, fresh = segments.bounds(index - training if evaluating else index)
        tokens = np.full((len(index), self.context + 1), PAD, np.int64)
        for row in range(len(index)):
            text = self.streams[int(segments.runs.text[run[row]])]
            tokens[row, : end[row] - begin[row] + 1] = text.tokens[begin[row] : end[row] + 1]
        positions, length = np.arange(self.context), (end - begin)[:, None]
        loss_mask = (positions >= uncounted[:, None]) & (positions < length)
        return TokenBatch(
            torch.from_numpy(tokens[:, :-1].copy()),
            torch.from_numpy(tokens[:, 1:].copy()),
            torch.from_numpy(positions < length),
            torch.from_numpy(index),
            float(loss_mask.sum()),
            loss_mask=torch.from_numpy(loss_mask),
            fresh=torch.from_numpy(fresh),
        )

    def where(self, index: int) -> str:
        """Return the file, and the first token of the segment in it."""
        training = len(self._training)
        segments = self._whole if index >= training else self._training
        run, begin, *_ = segments.bounds(np.array([index - training if index >= training else index]))
        return f"{self.streams[int(segments.runs.text[run[0]])].name}: token {int(begin[0]):,}"

    def target_positions(self, index: int) -> list[tuple[int, Indices]]:
        """See ``WindowExamples``."""
        training = len(self._training)
        segments = self._whole if index >= training else self._training
        run, begin, end, *_ = segments.bounds(np.array([index - training if index >= training else index]))
        return [(int(segments.runs.text[run[0]]), np.arange(int(begin[0]) + 1, int(end[0]) + 1))]

    def texts_started(self, indices: Indices) -> list[Stream | DocumentStream]:
        """Return the texts whose first evaluation segment is among ``indices``: each text once over all batches."""
        first = 0 if self._same else len(self._training)
        begins = [
            first + int(self._whole.first[np.flatnonzero(self._whole.runs.text == number)[0]])
            for number in range(len(self.streams))
        ]
        chosen = {int(index) for index in indices}
        return [text for text, begin in zip(self.streams, begins, strict=True) if begin in chosen]
