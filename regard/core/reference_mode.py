"""Whether to compute as the textbook writes it: slower, and plain to check the fast forms against."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["as_textbook", "textbook"]

_textbook: ContextVar[bool] = ContextVar("textbook", default=False)


@contextmanager
def as_textbook(wanted: bool = True) -> Iterator[None]:
    """Inside the block attention, dropout and loss take their plain forms, which mean the same."""
    token = _textbook.set(wanted or _textbook.get())
    try:
        yield
    finally:
        _textbook.reset(token)


def textbook() -> bool:
    return _textbook.get()
