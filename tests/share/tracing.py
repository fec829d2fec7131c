"""Room for torch to trace: its sizes are symbols, which the check of types takes for no ints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import config

__all__ = ["unchecked"]


@contextmanager
def unchecked() -> Iterator[None]:
    """Shapes and types in signatures are not checked inside the block."""
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)
