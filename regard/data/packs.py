"""Packs of documents as examples of a language model: rows of several whole documents, every token predicted once."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from regard.core.task import ExampleIndices, Indices
from regard.core.wording import pluralize
from regard.data.computed_order import even_batches
from regard.data.document_stream import DocumentStream
from regard.data.tokenizers.tokenizer import PAD
from regard.data.windows import TokenBatch

Numbers = npt.NDArray[np.int64]


class Pieces(NamedTuple):
    """Parts of documents, each (pieces,): inputs ``begin`` … ``end`` of a document, whose last targets count."""

    document: Numbers
    begin: Numbers
    end: Numbers
    counted: Numbers

    @property
    def length(self) -> Numbers:
        return self.end - self.begin


def cut_documents(sizes: Numbers, prompts: Numbers, *, context: int, stride: int) -> Pieces:
    """Documents of so many targets, ``prompts`` of which do not count, in pieces of at most ``context`` inputs.

    Cut from the end, ``stride`` tokens apart, the first piece the rest: every target that counts does so in exactly one
    piece, the first in which it stands, and sees at least context − stride tokens before it, or all that there are. A
    piece in which nothing counts is left out.
    """
    number = 1 + -(-np.maximum(sizes - context, 0) // stride)
    document = np.repeat(np.arange(len(sizes)), number)
    place = np.arange(len(document)) - np.repeat(np.cumsum(number) - number, number)
    end = sizes[document] - (number[document] - 1 - place) * stride
    begin = np.maximum(end - context, 0)
    seen = np.maximum(np.where(place == 0, 0, end - stride), prompts[document])
    kept = end > seen
    return Pieces(*(each[kept].astype(np.int64) for each in (document, begin, end, end - seen)))


def best_fit(lengths: Numbers, room: int) -> list[list[int]]:
    """Rows of pieces, none longer than ``room`` together: the longest first, each where the least room is left.

    At most 11/9 of the rows that there must be, and no more than pieces · log(room) steps: rows with the same room are
    one place to look at. A pure function; pieces of one length keep their order.
    """
    rows: list[list[int]] = []
    left: list[int] = []  # rooms that some row has, rising
    having: dict[int, list[int]] = {}  # room -> rows
    for piece in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[piece])
        at = bisect_left(left, length)
        if at == len(left):
            row, space = len(rows), room
            rows.append([])
        else:
            space = left[at]
            row = having[space].pop()
            if not having[space]:
                del having[space], left[at]
        rows[row].append(piece)
        if space > length:
            if space - length not in having:
                insort(left, space - length)
            having.setdefault(space - length, []).append(row)
    return rows


class _Plan:
    """Rows of pieces of all documents of several streams."""

    def __init__(self, streams: Sequence[DocumentStream], context: int, stride: int) -> None:
        parts = [cut_documents(each.sizes, each.prompts, context=context, stride=stride) for each in streams]
        self.stream = np.repeat(np.arange(len(parts)), [len(part.document) for part in parts])
        self.pieces = Pieces(*(np.concatenate(field) for field in zip(*parts, strict=True)))
        self.rows = best_fit(self.pieces.length, context)
        self.counted = np.array([self.pieces.counted[row].sum() for row in self.rows], np.int64)


class PackExamples:
    """Rows of at most ``context`` tokens over the documents of several streams, as ``core.task.Examples``.

    A row holds several documents, which ``TokenBatch.segment`` tells apart and each of which begins at position 0. A
    document longer than a row is in several, each piece a document of its own. Which documents share a row is the same
    in every epoch: none sees another. Evaluation with a ``stride`` below the context has rows of its own, after those
    of training. ``computed``: the order of training is computed batch by batch, in constant memory.
    """

    def __init__(
        self,
        streams: Sequence[DocumentStream],
        *,
        context: int,
        tokens: int,
        seed: int,
        stride: int | None = None,
        computed: bool = False,
    ) -> None:
        self.streams, self.context, self.rows, self.seed = list(streams), context, max(tokens // context, 1), seed
        self.stride, self.computed = stride or context, computed
        self._training = _Plan(self.streams, context, context)

    @cached_property
    def _plans(self) -> tuple[_Plan, ...]:
        overlapping = self.stride < self.context
        return (self._training, _Plan(self.streams, self.context, self.stride)) if overlapping else (self._training,)

    @property
    def padding(self) -> float:
        """The part of the rows of training that holds nothing."""
        return 1 - float(self._training.pieces.length.sum()) / (len(self._training.rows) * self.context)

    @property
    def description(self) -> str:
        """Summary of the packing, for people."""
        documents, rows = sum(each.documents for each in self.streams), len(self._training.rows)
        into = f"{pluralize(rows, 'row')} of {pluralize(self.context, 'token')}"
        return f"packed {pluralize(documents, 'document')} into {into}, {self.padding:.1%} padding"

    def __len__(self) -> int:
        return sum(len(plan.rows) for plan in self._plans)

    def batches(self, epoch: int | None) -> Sequence[ExampleIndices]:
        """See ``core.task.Examples``; in training in an order drawn from (seed, epoch), without replacement."""
        if self.computed and epoch is not None:
            return even_batches(len(self._training.rows), self.rows, seed=self.seed, epoch=epoch)
        if epoch is None:
            index = np.arange(len(self) - len(self._plans[-1].rows), len(self))
        else:
            index = np.random.default_rng((self.seed, epoch)).permutation(len(self._training.rows))
        cut = [index[at : at + self.rows] for at in range(0, len(index), self.rows)]
        return [ExampleIndices(each, np.full(len(each), 0 if epoch is None else epoch + 1)) for each in cut]

    def token_counts(self) -> npt.NDArray[np.int64]:
        """(examples,): targets of each row that count."""
        return np.concatenate([plan.counted for plan in self._plans])

    def collate(self, examples: ExampleIndices) -> TokenBatch:
        rows = [self._row(int(index)) for index in examples.index]
        shape = (len(rows), max(int(plan.pieces.length[row].sum()) for plan, row in rows))
        names = ("input", "target", "segment", "position")
        found = {name: np.full(shape, PAD, np.int64) for name in names}
        valid, loss_mask = np.zeros(shape, bool), np.zeros(shape, bool)
        for number, (plan, row) in enumerate(rows):
            at = 0
            for segment, piece in enumerate(row):
                tokens = self._tokens(plan, piece)
                stop = at + len(tokens) - 1
                found["input"][number, at:stop], found["target"][number, at:stop] = tokens[:-1], tokens[1:]
                # To the end of the row: padding goes on as the last document does.
                found["segment"][number, at:], found["position"][number, at:] = segment, np.arange(shape[1] - at)
                loss_mask[number, stop - int(plan.pieces.counted[piece]) : stop] = True
                at = stop
            valid[number, :at] = True
        one = {name: torch.from_numpy(each) for name, each in found.items()}
        index = torch.from_numpy(np.asarray(examples.index, np.int64))
        return TokenBatch(
            **one, valid=torch.from_numpy(valid), counted=torch.from_numpy(loss_mask), index=index,
            weight=float(loss_mask.sum()),
        )  # fmt: skip

    def where(self, index: int) -> str:
        """The file, and the first document of the row, from 1."""
        plan, row = self._row(index)
        return f"{self.streams[plan.stream[row[0]]].name}: document {plan.pieces.document[row[0]] + 1:,}"

    def texts_begun(self, indices: Indices) -> list[DocumentStream]:
        """The texts, with the first row of an evaluation: over all of its rows, each text once."""
        return self.streams if len(self) - len(self._plans[-1].rows) in indices else []

    def _row(self, index: int) -> tuple[_Plan, list[int]]:
        training = len(self._training.rows)
        plan = self._plans[int(index >= training)]
        return plan, plan.rows[index - training if index >= training else index]

    def _tokens(self, plan: _Plan, piece: int) -> npt.NDArray[np.int64]:
        """The tokens of a piece and the one after it."""
        stream, pieces = self.streams[plan.stream[piece]], plan.pieces
        first = int(stream.offsets[pieces.document[piece]])
        begin, end = int(pieces.begin[piece]), int(pieces.end[piece])
        return stream.tokens[first + begin : first + end + 1].astype(np.int64)
