"""Out-of-memory errors that say what to lower, and the memory of this machine."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from regard.errors import TrainingError

LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@contextmanager
def explain_out_of_memory(doing: str, *, help: str) -> Iterator[None]:
    """Raise running out of memory inside the block, on the CPU or an accelerator, as a TrainingError.

    ``doing`` completes "out of memory while …"; ``help`` says what to lower.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        why = (str(error) or "the system gave no more").splitlines()[0].rpartition("DefaultCPUAllocator: ")[2]
        raise TrainingError(f"out of memory while {doing}", why=why, help=help) from error


def total_memory() -> int:
    """Return the bytes this process could use alone: the accelerator's memory if there is one, else the machine's."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in LIMITS:
        with suppress(OSError, ValueError):  # not there, or "max"
            found.append(int(Path(path).read_text()))
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min([*found, *([soft] if soft != resource.RLIM_INFINITY else [])])


def _is_out_of_memory(error: RuntimeError | MemoryError) -> bool:
    """Whether the error means out of memory; the CPU's allocator raises a RuntimeError, known by its words alone."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
