"""Out of memory as an error that says what to lower."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from regard.errors import TrainingError

__all__ = ["within_memory"]


@contextmanager
def within_memory(doing: str, *, help: str) -> Iterator[None]:
    """TrainingError where ``doing`` so takes more memory than there is, on the CPU or an accelerator."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        why = (str(error) or "the system gave no more").splitlines()[0].rpartition("DefaultCPUAllocator: ")[2]
        raise TrainingError(f"out of memory while {doing}", why=why, help=help) from error


def _is_out_of_memory(error: RuntimeError | MemoryError) -> bool:
    """The CPU's allocator raises a plain RuntimeError, known by its words alone."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
