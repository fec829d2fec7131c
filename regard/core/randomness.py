"""The random generator that the current thread draws from, so that threads can draw at once and stay reproducible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

__all__ = ["generator", "seeded_generator"]

_current: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)


@contextmanager
def seeded_generator(seed: int, device: torch.device) -> Iterator[None]:
    """Make ``generator()`` return a fresh generator seeded with ``seed`` inside the block, in this thread alone."""
    token = _current.set(torch.Generator(device).manual_seed(seed))
    try:
        yield
    finally:
        _current.reset(token)


def generator() -> torch.Generator | None:
    """Return the generator that ``seeded_generator`` set for this thread; None stands for torch's default."""
    return _current.get()
