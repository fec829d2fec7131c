"""The order of an epoch, computed batch by batch in constant memory.

An epoch is arranged by length: its examples of length 1, then of length 2, … . The bounds of the batches therefore
follow from the number of examples of each length. The examples of a batch follow from one permutation for each length
(``Permutation``), a pseudorandom one that is evaluated position by position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from regard.core.task import ExampleIndices, Indices
from regard.data.length_index import LengthIndex
from regard.data.order import does_not_fit, shares

BATCHES, MIXTURE, PASS, ROWS = 1, 2, 3, 4  # streams of draws
PHASE = 0.6180339887498949  # golden ratio: rounding phases, spread evenly over the lengths

ROUNDS = 8  # four suffice in theory (Luby and Rackoff 1988); small halves need more
LISTED = 1 << 10  # sizes up to this use a table
Words = npt.NDArray[np.uint64]


class ComputedBatches(Sequence[ExampleIndices]):
    """``number`` batches, each computed by ``batch(position)`` when it is indexed."""

    def __init__(self, number: int, batch: Callable[[int], ExampleIndices]) -> None:
        self._number, self._batch = number, batch

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, position: int) -> ExampleIndices: ...
    @overload
    def __getitem__(self, position: slice) -> list[ExampleIndices]: ...
    def __getitem__(self, position: int | slice) -> ExampleIndices | list[ExampleIndices]:
        if isinstance(position, slice):
            return [self._batch(number) for number in range(*position.indices(self._number))]
        return self._batch(range(self._number)[position])


def even_batches(
    size: int, rows: int, *, seed: int, epoch: int, numbered: Callable[[Indices], Indices] = lambda numbers: numbers
) -> ComputedBatches:
    """Return an epoch of ``size`` examples, each exactly once, in batches of ``rows``; the last batch may be smaller.

    Args:
        size: number of examples.
        rows: examples of a batch.
        seed: seed of the order.
        epoch: epoch, from 0; its examples have visit ``epoch + 1``.
        numbered: maps numbers below ``size`` to example indices.
    """
    order = Permutation(size, seed, epoch, ROWS)

    def batch(place: int) -> ExampleIndices:
        index = numbered(order(np.arange(place * rows, min((place + 1) * rows, size))))
        return ExampleIndices(index, np.full(len(index), epoch + 1))

    return ComputedBatches(-(-size // rows), batch)


class _Layout(NamedTuple):
    """One epoch: the examples sorted by length, and their batches."""

    epoch: int
    used: Indices  # (corpora, lengths): examples used in earlier epochs
    ends: Indices  # (corpora, lengths): end of each corpus among the examples of a length
    bounds: Indices  # (lengths + 1,): first example of each length
    runs: Indices  # (runs, 3): preceding batches, preceding examples, examples per batch
    batches: int


class LengthOrder:
    """Epochs of several corpora, numbered consecutively: batches of similar length, in random order.

    A batch has at most ``tokens`` tokens, padding included. An epoch has about sum(sizes) examples. Of each length,
    corpus k contributes its share weights[k] / sum(weights) to within one example; a single corpus contributes every
    example exactly once. The examples of each length are read in passes, each in a new order. A pass continues in the
    next epoch, and ``visit`` counts the earlier passes. The order is a pure function of (seed, epoch). DataError for an
    example that alone exceeds ``tokens``.
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
            long_examples = [
                (int(index.pairs(length, np.zeros(1, np.int64))[0]), length)
                for length in self._lengths[longer & (self._counts[part] > 0)].tolist()
            ]
            if long_examples:
                pair, length = min(long_examples)
                number = int(self._counts[:, longer].sum())
                raise does_not_fit(number, length, self.tokens, where(int(self._first[part]) + pair))

    def batches(self, epoch: int) -> ComputedBatches:
        """Return the batches of an epoch.

        The time depends on the number of distinct lengths, not on the size of the corpora.
        """
        used, later = self._used(epoch), self._used(epoch + 1)
        ends = np.cumsum(later - used, axis=0)
        bounds = np.concatenate([[0], np.cumsum(ends[-1])])
        runs, batches = _cut(self._lengths.tolist(), bounds.tolist(), self.tokens)
        layout = _Layout(epoch, used, ends, bounds, np.array(runs, np.int64).reshape(-1, 3), batches)
        return ComputedBatches(batches, partial(self._batch, layout))

    def _used(self, epoch: int) -> Indices:
        """Return (corpora, lengths): the number of examples drawn in earlier epochs, over all passes."""
        phases = [(position + 1) * PHASE % 1 for position in range(len(self._lengths))]
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

    def _batch(self, layout: _Layout, position: int) -> ExampleIndices:
        order = _permutation(layout.batches, self.seed, layout.epoch, BATCHES)
        batch = int(order(np.array([position]))[0])
        before, start, rows = layout.runs[np.searchsorted(layout.runs[:, 0], batch, side="right") - 1].tolist()
        start += (batch - before) * rows
        parts, stop = [], start + rows
        while start < stop:
            column = int(np.searchsorted(layout.bounds, start, side="right")) - 1
            end = min(stop, int(layout.bounds[column + 1]))
            parts.append(self._of_length(layout, column, np.arange(start, end) - layout.bounds[column]))
            start = end
        return ExampleIndices(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _of_length(self, layout: _Layout, column: int, positions: Indices) -> ExampleIndices:
        """Return the examples at these positions among those of the ``column``-th length."""
        length, ends = int(self._lengths[column]), layout.ends[:, column]
        if len(ends) > 1:  # mixed
            positions = _permutation(int(ends[-1]), self.seed, layout.epoch, length, MIXTURE)(positions)
        index, visit = np.empty_like(positions), np.empty_like(positions)
        of = np.searchsorted(ends, positions, side="right")
        for part in np.unique(of).tolist():
            rows, count = np.flatnonzero(of == part), int(self._counts[part, column])
            drawn = layout.used[part, column] + positions[rows] - (ends[part - 1] if part else 0)
            visit[rows] = drawn // count
            for number in np.unique(visit[rows]).tolist():
                in_pass = rows[visit[rows] == number]
                order = _permutation(count, self.seed, number, part, length, PASS)
                pairs = self.indices[part].pairs(length, order(drawn[visit[rows] == number] % count))
                index[in_pass] = self._first[part] + pairs
        return ExampleIndices(index, visit)


def _cut(lengths: Sequence[int], bounds: Sequence[int], tokens: int) -> tuple[list[tuple[int, int, int]], int]:
    """Return batches of examples sorted by length, as ``order.batches_in_order`` cuts them.

    Args:
        lengths: the distinct lengths, ascending.
        bounds: the first example of each length, and the number of examples.
        tokens: limit of a batch.

    Returns:
        Runs of batches of equal size, and the number of batches.
    """
    runs, batches, start, column = list[tuple[int, int, int]](), 0, 0, 0
    while start < bounds[-1]:
        while bounds[column + 1] <= start:
            column += 1
        rows, left = tokens // lengths[column], bounds[column + 1] - start
        number = left // rows
        if number == 0:  # the last examples of a length share a batch with the next length
            number, rows, after = 1, left, column + 1
            while after < len(lengths) and tokens // lengths[after] > rows and rows == bounds[after] - start:
                rows = min(bounds[after + 1] - start, tokens // lengths[after])
                after += 1
        runs.append((batches, start, rows))
        batches, start = batches + number, start + number * rows
    return runs, batches


class Permutation:
    """Permutation of range(``size``), a function of ``key`` alone; ``permutation(positions)`` returns its values there.

    A balanced Feistel network over the smallest even number of bits that holds ``size``. Values outside the range pass
    through the network again until they are inside ("cycle walking"), less than four passes on average. Memory is
    constant.
    """

    def __init__(self, size: int, *key: int) -> None:
        self.size = size
        seed = np.random.SeedSequence(key)
        self._table: Indices | None = None
        if size <= LISTED:
            self._table = np.random.default_rng(seed).permutation(size).astype(np.int64)
            return
        half = ((size - 1).bit_length() + 1) // 2
        self._half, self._mask = np.uint64(half), np.uint64((1 << half) - 1)
        self._keys = seed.generate_state(ROUNDS, np.uint64)

    def __call__(self, positions: Indices) -> Indices:
        if self._table is not None:
            return self._table[positions]
        values = self._walked(np.asarray(positions, np.uint64))
        beyond = np.flatnonzero(values >= self.size)
        while len(beyond):
            values[beyond] = self._walked(values[beyond])
            beyond = beyond[values[beyond] >= self.size]
        return values.astype(np.int64)

    def _walked(self, numbers: Words) -> Words:
        """Apply the network once: (left, right) → (right, left ^ mixed(right)), each round with its own key."""
        left, right = numbers >> self._half, numbers & self._mask
        for key in self._keys:
            left, right = right, left ^ (_mixed(right ^ key) & self._mask)
        return (left << self._half) | right


def _mixed(words: Words) -> Words:
    """Mix the bits of each word (the finalizer of SplitMix64, Steele et al. 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


_permutation = lru_cache(256)(Permutation)  # neighboring batches share lengths and so permutations
