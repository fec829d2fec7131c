"""Out-of-memory errors with a remedy, and the memory of this machine."""

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
    """Convert an out-of-memory error of the block, on the CPU or an accelerator, to a TrainingError.

    ``doing`` completes "out of memory while …"; ``help`` names the setting to lower.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        why = (str(error) or "the system has no free memory").splitlines()[0].rpartition("DefaultCPUAllocator: ")[2]
        raise TrainingError(f"out of memory while {doing}", why=why, help=help) from error


def total_memory() -> int:
    """Return the bytes available to this process: the accelerator's memory if there is one, else the machine's."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in LIMITS:
        with suppress(OSError, ValueError):  # not there, or "max"
            limits.append(int(Path(path).read_text()))
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min([*limits, *([soft] if soft != resource.RLIM_INFINITY else [])])


def _is_out_of_memory(error: RuntimeError | MemoryError) -> bool:
    """Return whether the error means out of memory; the CPU allocator's RuntimeError is recognized by its text."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
