"""Memory of packed matrices, in huge pages if the system supports them."""

from __future__ import annotations

import mmap

import torch
from jaxtyping import UInt8
from torch import Tensor

CHUNK = 32 * 2**20  # bytes per allocation; pages that are never accessed use no memory
HUGE = 2 * 2**20
LINE = 64


class MatrixMemory:
    """Memory for matrices that a step reads one after the other, allocated contiguously.

    The processor's prefetching stops at each 4 KiB page. A step reads megabytes from the last level of cache: with huge
    pages they are one stream.
    """

    def __init__(self) -> None:
        self._free: UInt8[Tensor, "bytes"] = torch.empty(0, dtype=torch.uint8)

    def zeros(self, size: int) -> UInt8[Tensor, "size"]:
        """Return ``size`` zeros, aligned to a cache line."""
        aligned = size + -size % LINE
        if aligned > len(self._free):
            chunk = mmap.mmap(-1, max(CHUNK, aligned + -aligned % HUGE))
            if hasattr(mmap, "MADV_HUGEPAGE"):
                chunk.madvise(mmap.MADV_HUGEPAGE)
            self._free = torch.frombuffer(chunk, dtype=torch.uint8)
        block, self._free = self._free[:size], self._free[aligned:]
        return block
