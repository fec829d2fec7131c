"""Where draws come from while several threads compute at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

__all__ = ["drawing", "generator"]

_current: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)


@contextmanager
def drawing(seed: int, device: torch.device) -> Iterator[None]:
    """Inside the block ``generator`` is one of its own that begins at ``seed``, whatever other threads draw."""
    token = _current.set(torch.Generator(device).manual_seed(seed))
    try:
        yield
    finally:
        _current.reset(token)


def generator() -> torch.Generator | None:
    """What to draw from here; None for torch's default."""
    return _current.get()
