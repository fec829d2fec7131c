"""Threads for work that depends on the size of a request: the event loop serves all clients and must never wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
# Python runs one thread at a time: with many threads, the event loop would wait for all of them before its next turn.
THREADS = ThreadPoolExecutor(2, "texts")


async def off_loop(
    work: Callable[Parameters, Result], /, *args: Parameters.args, **options: Parameters.kwargs
) -> Result:
    """Return the result of ``work``, computed in a thread. The work must not wait for a model."""
    return await asyncio.get_running_loop().run_in_executor(THREADS, partial(work, *args, **options))


def _nothing() -> None:
    """Do nothing."""


async def results_of(futures: Sequence[Future[Result]], begin: Callable[[], None] = _nothing) -> list[Result]:
    """Return the results of futures of other threads; only the last one wakes the event loop.

    Args:
        futures: of the results.
        begin: called once before, in another thread; it may start what completes the futures.

    Raises:
        Exception: the first error, as soon as a future has one.
        CancelledError: if a future was canceled.
    """
    if not futures:
        return []
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    results: list[Any] = [None] * len(futures)
    lock, left = threading.Lock(), len(futures)

    def wake(error: BaseException | None) -> None:
        """Complete the future that waits on the event loop."""
        if not done.done():
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

    def collect(number: int, future: Future[Result]) -> None:
        """Store a result, in the thread that computed it."""
        nonlocal left
        error = CancelledError() if future.cancelled() else future.exception()
        if error is None:
            results[number] = future.result()
        with lock:
            left -= 1
            ends = left == 0 or error is not None
        if ends and not loop.is_closed():
            loop.call_soon_threadsafe(wake, error)

    def watch() -> None:
        """Begin, and register the callbacks of the futures."""
        begin()
        for number, future in enumerate(futures):
            future.add_done_callback(partial(collect, number))

    await off_loop(watch)
    await done
    return results


def cancel_all(futures: Sequence[Future[Any]]) -> None:
    """Cancel futures whose results are no longer needed, in a thread."""
    THREADS.submit(lambda: [future.cancel() for future in futures])
