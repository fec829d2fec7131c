"""Random numbers of one output, which depend only on its seed, its number and its input."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence

import numpy as np

BLOCK = 256  # numbers drawn at a time


class Draws:
    """A stream of random numbers in [0, 1) for one output."""

    def __init__(self, seed: int, sample: int, tokens: Sequence[int]) -> None:
        """Create the stream of output number ``sample`` of an input.

        Args:
            seed: any whole number of at most 64 bits.
            sample: number of the output among those of its input.
            tokens: token ids of the input; equal inputs have equal streams.
        """
        key = zlib.crc32(array("I", tokens).tobytes())
        self._generator = np.random.default_rng((seed % 2**64, sample, key))
        self._numbers: list[float] = []

    def next(self) -> float:
        """Return the next number."""
        if not self._numbers:
            self._numbers = self._generator.random(BLOCK)[::-1].tolist()
        return self._numbers.pop()
