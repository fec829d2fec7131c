"""Pseudorandom permutations of any size, evaluated position by position in constant memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from regard.core.task import Indices

ROUNDS = 8  # four suffice in theory (Luby and Rackoff 1988); small halves need more
LISTED = 1 << 10  # sizes up to this use a table
Words = npt.NDArray[np.uint64]


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
