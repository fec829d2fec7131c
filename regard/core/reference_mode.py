"""Reference mode: attention, dropout and loss by their plain formulas, to verify the fast implementations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_enabled: ContextVar[bool] = ContextVar("reference_mode", default=False)


@contextmanager
def reference_mode(enabled: bool = True) -> Iterator[None]:
    """Compute attention, dropout and loss inside the block by their plain formulas: the same values, more slowly.

    A block inside a reference block stays in reference mode, even with ``enabled=False``.
    """
    token = _enabled.set(enabled or _enabled.get())
    try:
        yield
    finally:
        _enabled.reset(token)


def in_reference_mode() -> bool:
    """Return whether the caller runs inside a ``reference_mode`` block."""
    return _enabled.get()
