"""Memory of packed matrices, in huge pages where the system has them."""

from __future__ import annotations

import mmap

import torch
from jaxtyping import UInt8
from torch import Tensor

CHUNK = 32 * 2**20  # bytes asked for together; what is never touched takes no memory
HUGE = 2 * 2**20
LINE = 64


class MatrixMemory:
    """Room for matrices that a step reads one after the other, side by side.

    A page of 4 KiB ends the processor's own reading ahead; of a step's megabytes, which come from the last level of
    cache, huge pages make one stream.
    """

    def __init__(self) -> None:
        self._room: UInt8[Tensor, "bytes"] = torch.empty(0, dtype=torch.uint8)

    def zeros(self, size: int) -> UInt8[Tensor, "size"]:
        """So many zeros, from the begin of a line of the cache on."""
        taken = size + -size % LINE
        if taken > len(self._room):
            chunk = mmap.mmap(-1, max(CHUNK, taken + -taken % HUGE))
            if hasattr(mmap, "MADV_HUGEPAGE"):
                chunk.madvise(mmap.MADV_HUGEPAGE)
            self._room = torch.frombuffer(chunk, dtype=torch.uint8)
        made, self._room = self._room[:size], self._room[taken:]
        return made
