"""Sessions as examples: batches of padded item numbers, each column's target the item after it."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.task import ExampleIndices
from regard.data.order import each_once
from regard.data.padding import padded
from regard.data.tokenizers.tokenizer import BEGIN, UNKNOWN
from regard.errors import DataError
from regard.tasks.next_item.codecs import BEST, ItemCodec
from regard.tasks.next_item.config import NextItemConfig
from regard.tasks.next_item.sessions import read_sessions

__all__ = ["SessionBatch", "SessionExamples"]


class SessionBatch(NamedTuple):
    """Padded sessions. Column t of ``target`` is the item after column t of ``input``, which begins with BEGIN.

    ``counted``: targets that training knows; of these the loss is a mean, and ``weight`` is their number. ``asked``:
    targets with an item before them, of which figures are. ``popular`` and ``follower``: the place of the target among
    ten items by each baseline, 0 the first, BEST where it is not there.
    """

    input: Tensor
    valid: Tensor
    target: Tensor
    counted: Tensor
    asked: Tensor
    popular: Tensor
    follower: Tensor
    index: Tensor  # type: ignore[assignment]  # (rows,); hides tuple.index
    weight: float


class _Row(NamedTuple):
    read: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    popular: npt.NDArray[np.int64]
    follower: npt.NDArray[np.int64]


class SessionExamples:
    """The sessions of files as ``core.task.Examples``, in memory; one longer than the context is several examples."""

    def __init__(self, name: str, config: NextItemConfig, codec: ItemCodec) -> None:
        self._config, corpora = config, (config.data.train if name == "train" else config.data.valid) or ()
        self.rows: list[_Row] = []
        self._places: list[str] = []
        self.sessions = 0
        for session in read_sessions(corpora, config.data):
            numbers = codec.numbers(session.items)
            self.sessions += 1
            for begin in range(0, len(numbers), config.data.context):
                self.rows.append(_row(numbers, begin, begin + config.data.context, codec))
                self._places.append(session.where)
        if not self.rows:
            why = "the files are empty, or all their sessions fall into another share; --valid-file names others"
            raise DataError("there is no session", where=corpora[0].name, why=why)
        if not any((row.target != UNKNOWN).any() for row in self.rows):
            raise DataError("no item is known", where=corpora[0].name, why="training had none of these items")
        self._lengths = np.array([len(row.target) for row in self.rows], np.int32)

    def __len__(self) -> int:
        return len(self.rows)

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """See ``core.task.Examples``: by like length, drawn from (seed, epoch)."""
        return each_once(
            self._lengths, self._config.train.batch_tokens, seed=self._config.seed, epoch=epoch, where=self.where
        )

    def token_counts(self) -> npt.NDArray[np.int64]:
        return np.array([int((row.target != UNKNOWN).sum()) for row in self.rows], np.int64)

    def collate(self, examples: ExampleIndices) -> SessionBatch:
        chosen = [self.rows[at] for at in examples.index]
        columns = {name: padded([getattr(row, name) for row in chosen]) for name in _Row._fields}
        (read, valid), target = columns["read"], columns["target"][0]
        counted = valid & (target != UNKNOWN)
        index = torch.from_numpy(np.asarray(examples.index, np.int64).copy())
        return SessionBatch(
            read, valid, target, counted, valid & (read != BEGIN), columns["popular"][0], columns["follower"][0],
            index, float(counted.sum()),
        )  # fmt: skip

    def where(self, index: int) -> str:
        return self._places[index]

    def digest(self) -> str:
        """A sha256 of all that training sees of the examples."""
        whole = hashlib.sha256(self._lengths.tobytes())
        for row in self.rows:
            whole.update(row.read.tobytes() + row.target.tobytes())
        return whole.hexdigest()


def _row(numbers: npt.NDArray[np.int64], begin: int, end: int, codec: ItemCodec) -> _Row:
    """The targets from ``begin`` to ``end``, and the items before each of them."""
    target = numbers[begin:end]
    read = np.concatenate([numbers[begin - 1 : begin] if begin else [BEGIN], target[:-1]]).astype(np.int64)
    popular = [_place(item, codec.popular) for item in target.tolist()]
    follower = [
        _place(item, codec.likely_after(before)) for before, item in zip(read.tolist(), target.tolist(), strict=True)
    ]
    return _Row(read, target, np.array(popular, np.int64), np.array(follower, np.int64))


def _place(item: int, best: tuple[int, ...]) -> int:
    return best.index(item) if item in best else BEST
