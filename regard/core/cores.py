"""Cores that this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """The cores that the system lets this process use; all of them where it does not tell, as macOS."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
