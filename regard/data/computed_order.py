"""The order of an epoch, computed batch by batch: no list as long as the corpus is in memory, or made before the first.

An epoch is laid out by length: its examples of length 1, of length 2, … . So where a batch ends follows from how many
there are of each, and which examples are in it from permutations of those of each length (``Permutation``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, overload

import numpy as np

from regard.core.task import ExampleIndices, Indices
from regard.data.length_index import LengthIndex
from regard.data.order import does_not_fit, shares
from regard.data.permutation import Permutation

BATCHES, MIXTURE, PASS, ROWS = 1, 2, 3, 4  # streams of draws
PHASE = 0.6180339887498949  # of the golden section: parts of whole numbers, spread evenly over the lengths

_permutation = lru_cache(256)(Permutation)  # a batch uses those of its neighbors in length


class ComputedBatches(Sequence[ExampleIndices]):
    """``number`` batches, each made by ``batch(place)`` when it is asked for."""

    def __init__(self, number: int, batch: Callable[[int], ExampleIndices]) -> None:
        self._number, self._batch = number, batch

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, place: int) -> ExampleIndices: ...
    @overload
    def __getitem__(self, place: slice) -> list[ExampleIndices]: ...
    def __getitem__(self, place: int | slice) -> ExampleIndices | list[ExampleIndices]:
        if isinstance(place, slice):
            return [self._batch(each) for each in range(*place.indices(self._number))]
        return self._batch(range(self._number)[place])


def even_batches(
    size: int, rows: int, *, seed: int, epoch: int, numbered: Callable[[Indices], Indices] = lambda places: places
) -> ComputedBatches:
    """An epoch of ``size`` examples, each once, ``rows`` to a batch, the last one fewer.

    ``numbered`` gives the examples of some of the numbers below ``size``. The visit of epoch e is e + 1.
    """
    order = Permutation(size, seed, epoch, ROWS)

    def batch(place: int) -> ExampleIndices:
        index = numbered(order(np.arange(place * rows, min((place + 1) * rows, size))))
        return ExampleIndices(index, np.full(len(index), epoch + 1))

    return ComputedBatches(-(-size // rows), batch)


class _Layout(NamedTuple):
    """One epoch: the examples by rising length, and the batches that they are cut into."""

    epoch: int
    used: Indices  # (corpora, lengths): examples of each corpus and length in the epochs before
    ends: Indices  # (corpora, lengths): where those of this epoch end, among those of a length
    bounds: Indices  # (lengths + 1,): where each length begins, among all
    runs: Indices  # (runs, 3): batches before, examples before, examples of a batch
    batches: int


class LengthOrder:
    """Epochs of several corpora numbered end to end: batches of at most ``tokens`` by like length, in a drawn order.

    The law: an epoch has about sum(sizes) examples, and corpus k has its share weights[k] / sum(weights) of them, of
    each length, to within one; a single corpus gives every example exactly once. The examples of a length are walked
    through in passes, every pass a new order, which go on where the last epoch stopped: ``visit`` counts the passes
    before. A pure function of (seed, epoch). DataError for an example that alone exceeds ``tokens``.
    """

    def __init__(
        self,
        indices: Sequence[LengthIndex],
        weights: Sequence[float],
        *,
        tokens: int,
        seed: int,
        where: Callable[[int], str],
    ) -> None:
        self.indices, self.tokens, self.seed = list(indices), tokens, seed
        sizes = [index.size for index in indices]
        self._first = np.cumsum([0, *sizes])
        self._drawn = shares(sum(sizes), weights)
        counts = np.zeros((len(sizes), max(len(index.counts) for index in indices)), np.int64)
        for row, index in zip(counts, indices, strict=True):
            row[: len(index.counts)] = index.counts
        self._lengths = np.flatnonzero(counts.sum(0))
        self._counts = counts[:, self._lengths]
        self._require_fitting(where)

    def _require_fitting(self, where: Callable[[int], str]) -> None:
        longer = self._lengths > self.tokens
        for part, index in enumerate(self.indices):
            found = [
                (int(index.pairs(length, np.zeros(1, np.int64))[0]), length)
                for length in self._lengths[longer & (self._counts[part] > 0)].tolist()
            ]
            if found:
                pair, length = min(found)
                number = int(self._counts[:, longer].sum())
                raise does_not_fit(number, length, self.tokens, where(int(self._first[part]) + pair))

    def batches(self, epoch: int) -> ComputedBatches:
        """The batches of an epoch. Takes as long as there are different lengths, whatever the size of the corpora."""
        used, later = self._used(epoch), self._used(epoch + 1)
        ends = np.cumsum(later - used, axis=0)
        bounds = np.concatenate([[0], np.cumsum(ends[-1])])
        runs, batches = _cut(self._lengths.tolist(), bounds.tolist(), self.tokens)
        layout = _Layout(epoch, used, ends, bounds, np.array(runs, np.int64).reshape(-1, 3), batches)
        return ComputedBatches(batches, partial(self._batch, layout))

    def _used(self, epoch: int) -> Indices:
        """(corpora, lengths): how many examples the epochs before have drawn, in the numbers of all passes."""
        phases = [(at + 1) * PHASE % 1 for at in range(len(self._lengths))]
        return np.array(
            [
                [
                    (epoch * drawn * count + int(phase * index.size)) // index.size
                    for count, phase in zip(row, phases, strict=True)
                ]
                for row, drawn, index in zip(self._counts.tolist(), self._drawn, self.indices, strict=True)
            ],
            np.int64,
        )

    def _batch(self, layout: _Layout, place: int) -> ExampleIndices:
        order = _permutation(layout.batches, self.seed, layout.epoch, BATCHES)
        number = int(order(np.array([place]))[0])
        before, start, rows = layout.runs[np.searchsorted(layout.runs[:, 0], number, side="right") - 1].tolist()
        start += (number - before) * rows
        parts, stop = [], start + rows
        while start < stop:
            at = int(np.searchsorted(layout.bounds, start, side="right")) - 1
            end = min(stop, int(layout.bounds[at + 1]))
            parts.append(self._of_length(layout, at, np.arange(start, end) - layout.bounds[at]))
            start = end
        return ExampleIndices(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _of_length(self, layout: _Layout, at: int, places: Indices) -> ExampleIndices:
        """The examples in these places among those of one length."""
        length, ends = int(self._lengths[at]), layout.ends[:, at]
        if len(ends) > 1:  # mixed
            places = _permutation(int(ends[-1]), self.seed, layout.epoch, length, MIXTURE)(places)
        index, visit = np.empty_like(places), np.empty_like(places)
        of = np.searchsorted(ends, places, side="right")
        for part in np.unique(of).tolist():
            here, count = np.flatnonzero(of == part), int(self._counts[part, at])
            drawn = layout.used[part, at] + places[here] - (ends[part - 1] if part else 0)
            visit[here] = drawn // count
            for turn in np.unique(visit[here]).tolist():
                now = here[visit[here] == turn]
                order = _permutation(count, self.seed, turn, part, length, PASS)
                found = self.indices[part].pairs(length, order(drawn[visit[here] == turn] % count))
                index[now] = self._first[part] + found
        return ExampleIndices(index, visit)


def _cut(lengths: Sequence[int], bounds: Sequence[int], tokens: int) -> tuple[list[tuple[int, int, int]], int]:
    """Batches of examples of rising length, as ``order.batches_in_order`` cuts them: runs of equal ones, their number.

    ``bounds``: where each length begins, and the end.
    """
    runs, batches, start, at = list[tuple[int, int, int]](), 0, 0, 0
    while start < bounds[-1]:
        while bounds[at + 1] <= start:
            at += 1
        rows, left = tokens // lengths[at], bounds[at + 1] - start
        number = left // rows
        if number == 0:  # the last ones of a length go on into the next
            number, rows, after = 1, left, at + 1
            while after < len(lengths) and tokens // lengths[after] > rows and rows == bounds[after] - start:
                rows = min(bounds[after + 1] - start, tokens // lengths[after])
                after += 1
        runs.append((batches, start, rows))
        batches, start = batches + number, start + number * rows
    return runs, batches
