"""Packed documents as examples of a language model: rows of several whole documents; every token is predicted once."""

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
    """Parts of documents, shape (pieces,) each.

    A piece has the inputs ``begin`` … ``end`` of a document; its last ``target_counts`` targets count.
    """

    document: Numbers
    begin: Numbers
    end: Numbers
    target_counts: Numbers

    @property
    def length(self) -> Numbers:
        return self.end - self.begin


def cut_documents(sizes: Numbers, prompts: Numbers, *, context: int, stride: int) -> Pieces:
    """Split documents into pieces of at most ``context`` inputs.

    Pieces are cut from the end, ``stride`` tokens apart; the first piece gets the remainder. Every target counts in
    exactly one piece, the first that contains it. It sees at least context − stride preceding tokens, or all of them.
    Pieces without counted targets are left out.

    Args:
        sizes: number of targets of each document.
        prompts: number of its first targets that do not count.
        context: maximum number of inputs.
        stride: distance of the ends of neighboring pieces.
    """
    number = 1 + -(-np.maximum(sizes - context, 0) // stride)
    document = np.repeat(np.arange(len(sizes)), number)
    position = np.arange(len(document)) - np.repeat(np.cumsum(number) - number, number)
    end = sizes[document] - (number[document] - 1 - position) * stride
    begin = np.maximum(end - context, 0)
    seen = np.maximum(np.where(position == 0, 0, end - stride), prompts[document])
    has_targets = end > seen
    return Pieces(*(values[has_targets].astype(np.int64) for values in (document, begin, end, end - seen)))


def best_fit(lengths: Numbers, room: int) -> list[list[int]]:
    """Pack pieces into rows of at most ``room`` tokens: longest first, each into the fullest row that has space for it.

    Uses at most 11/9 of the optimal number of rows, in at most pieces · log(room) steps, since rows with equal free
    space share one entry of the search. A pure function; pieces of equal length keep their order.
    """
    rows: list[list[int]] = []
    free_spaces: list[int] = []  # distinct free spaces of rows, ascending
    rows_by_space: dict[int, list[int]] = {}  # free space → rows
    for piece in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[piece])
        position = bisect_left(free_spaces, length)
        if position == len(free_spaces):
            row, space = len(rows), room
            rows.append([])
        else:
            space = free_spaces[position]
            row = rows_by_space[space].pop()
            if not rows_by_space[space]:
                del rows_by_space[space], free_spaces[position]
        rows[row].append(piece)
        if space > length:
            if space - length not in rows_by_space:
                insort(free_spaces, space - length)
            rows_by_space.setdefault(space - length, []).append(row)
    return rows


class _Plan:
    """Rows of pieces of all documents of several streams."""

    def __init__(self, streams: Sequence[DocumentStream], context: int, stride: int) -> None:
        parts = [cut_documents(stream.sizes, stream.prompts, context=context, stride=stride) for stream in streams]
        self.stream = np.repeat(np.arange(len(parts)), [len(part.document) for part in parts])
        self.pieces = Pieces(*(np.concatenate(field) for field in zip(*parts, strict=True)))
        self.rows = best_fit(self.pieces.length, context)
        self.target_counts = np.array([self.pieces.target_counts[row].sum() for row in self.rows], np.int64)


class PackExamples:
    """Rows of at most ``context`` tokens over the documents of several streams, as ``core.task.Examples``.

    A row holds several documents, which ``TokenBatch.segment`` separates; each begins at position 0. Longer documents
    are split into pieces, which are treated as documents of their own. The documents of a row are the same in every
    epoch, since they do not see each other. Evaluation with a ``stride`` below the context has its own rows, numbered
    after those of training. With ``computed``, the order of training is computed batch by batch, in constant memory.
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
        """Share of padding in the rows of training."""
        return 1 - float(self._training.pieces.length.sum()) / (len(self._training.rows) * self.context)

    @property
    def description(self) -> str:
        """Summary of the packing, for log lines."""
        documents, rows = sum(stream.documents for stream in self.streams), len(self._training.rows)
        into = f"{pluralize(rows, 'row')} of {pluralize(self.context, 'token')}"
        return f"packed {pluralize(documents, 'document')} into {into}, {self.padding:.1%} padding"

    def __len__(self) -> int:
        return sum(len(plan.rows) for plan in self._plans)

    def batches(self, epoch: int | None) -> Sequence[ExampleIndices]:
        """See ``core.task.Examples``. Training uses an order drawn from (seed, epoch), without replacement."""
        if self.computed and epoch is not None:
            return even_batches(len(self._training.rows), self.rows, seed=self.seed, epoch=epoch)
        if epoch is None:
            index = np.arange(len(self) - len(self._plans[-1].rows), len(self))
        else:
            index = np.random.default_rng((self.seed, epoch)).permutation(len(self._training.rows))
        cut = [index[begin : begin + self.rows] for begin in range(0, len(index), self.rows)]
        return [ExampleIndices(batch, np.full(len(batch), 0 if epoch is None else epoch + 1)) for batch in cut]

    def token_counts(self) -> npt.NDArray[np.int64]:
        """Return (examples,): counted targets of each row."""
        return np.concatenate([plan.target_counts for plan in self._plans])

    def collate(self, examples: ExampleIndices) -> TokenBatch:
        rows = [self._row(int(index)) for index in examples.index]
        shape = (len(rows), max(int(plan.pieces.length[row].sum()) for plan, row in rows))
        names = ("input", "target", "segment", "position")
        arrays = {name: np.full(shape, PAD, np.int64) for name in names}
        valid, loss_mask = np.zeros(shape, bool), np.zeros(shape, bool)
        for number, (plan, row) in enumerate(rows):
            start = 0
            for segment, piece in enumerate(row):
                tokens = self._tokens(plan, piece)
                stop = start + len(tokens) - 1
                arrays["input"][number, start:stop], arrays["target"][number, start:stop] = tokens[:-1], tokens[1:]
                # Fill to the end of the row, so padding continues the last document.
                arrays["segment"][number, start:] = segment
                arrays["position"][number, start:] = np.arange(shape[1] - start)
                loss_mask[number, stop - int(plan.pieces.target_counts[piece]) : stop] = True
                start = stop
            valid[number, :start] = True
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        index = torch.from_numpy(np.asarray(examples.index, np.int64))
        return TokenBatch(
            **tensors, valid=torch.from_numpy(valid), loss_mask=torch.from_numpy(loss_mask), index=index,
            weight=float(loss_mask.sum()),
        )  # fmt: skip

    def where(self, index: int) -> str:
        """Return the file, and the first document of the row, from 1."""
        plan, row = self._row(index)
        return f"{self.streams[plan.stream[row[0]]].name}: document {plan.pieces.document[row[0]] + 1:,}"

    def target_positions(self, index: int) -> list[tuple[int, Indices]]:
        """See ``WindowExamples``."""
        plan, row = self._row(index)
        pieces, positions = plan.pieces, list[tuple[int, Indices]]()
        for piece in row:
            text = int(plan.stream[piece])
            first = int(self.streams[text].offsets[pieces.document[piece]]) + 1
            positions.append((text, np.arange(first + pieces.begin[piece], first + pieces.end[piece])))
        return positions

    def texts_started(self, indices: Indices) -> list[DocumentStream]:
        """Return all texts if ``indices`` has the first evaluation row: over all rows, each text once."""
        return self.streams if len(self) - len(self._plans[-1].rows) in indices else []

    def _row(self, index: int) -> tuple[_Plan, list[int]]:
        training = len(self._training.rows)
        plan = self._plans[int(index >= training)]
        return plan, plan.rows[index - training if index >= training else index]

    def _tokens(self, plan: _Plan, piece: int) -> npt.NDArray[np.int64]:
        """Return the tokens of a piece and the token after it."""
        stream, pieces = self.streams[plan.stream[piece]], plan.pieces
        first = int(stream.offsets[pieces.document[piece]])
        begin, end = int(pieces.begin[piece]), int(pieces.end[piece])
        return stream.tokens[first + begin : first + end + 1].astype(np.int64)
