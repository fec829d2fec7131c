"""Permutations of any size of which each place is computed by itself: an order that nobody has to list."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from regard.core.task import Indices

ROUNDS = 8  # four make every pair of places look drawn (Luby and Rackoff 1988); small halves want some more
LISTED = 1 << 10  # up to this size a table is smaller than what is gained
Words = npt.NDArray[np.uint64]


class Permutation:
    """Permutation of range(``size``), a function of ``key`` alone: ``permutation(places)`` is what stands there.

    A balanced Feistel network over the least even number of bits that hold ``size``; a number beyond is sent through
    again until it falls below ("cycle walking"), which takes less than four passes in the mean. Memory is constant.
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

    def __call__(self, places: Indices) -> Indices:
        if self._table is not None:
            return self._table[places]
        found = self._walked(np.asarray(places, np.uint64))
        beyond = np.flatnonzero(found >= self.size)
        while len(beyond):
            found[beyond] = self._walked(found[beyond])
            beyond = beyond[found[beyond] >= self.size]
        return found.astype(np.int64)

    def _walked(self, numbers: Words) -> Words:
        """The network once: (left, right) to (right, left ^ mixed(right)), each round with a key of its own."""
        left, right = numbers >> self._half, numbers & self._mask
        for key in self._keys:
            left, right = right, left ^ (_mixed(right ^ key) & self._mask)
        return (left << self._half) | right


def _mixed(words: Words) -> Words:
    """Words of which each bit depends on all bits (the finalizer of SplitMix64, Steele et al. 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
