"""Threads for work that grows with a request: the event loop serves all clients and must never wait for one text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

__all__ = ["off_loop"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
# Python computes in one thread at a time: with many threads, the event loop would wait for its turn behind all of them.
THREADS = ThreadPoolExecutor(2, "texts")


async def off_loop(
    work: Callable[Parameters, Result], /, *args: Parameters.args, **options: Parameters.kwargs
) -> Result:
    """Return the result of ``work``, computed in a thread. The work must not wait for a model."""
    return await asyncio.get_running_loop().run_in_executor(THREADS, partial(work, *args, **options))
