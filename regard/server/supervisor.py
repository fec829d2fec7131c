"""Supervisor of worker processes: starts them, starts another where one dies, and stops all of them.

uvicorn's own supervisor ignores a second signal, stops every worker when one of them cannot be started again, and runs
no server but its own.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

log = logging.getLogger("regard.server")
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds before another is started: doubled while workers die before they serve
STOPPING = (signal.SIGINT, signal.SIGTERM)
AT_ONCE = signal.SIGUSR1  # what a worker gets for Ctrl-C, which it does not see: to stop without waiting for balancers
Work = Callable[[int, Connection], None]


@dataclass(eq=False)
class _Worker:
    """One place for a process; ``serving``: whether its process has said that it serves."""

    number: int
    process: Any = None
    said: Connection | None = None
    serving: bool = False
    failures: int = 0
    start_at: float = 0.0


class Supervisor:
    """Supervisor of ``count`` processes that each run ``work(number, connection)``, number 1 and up.

    ``work`` sends something through the connection once it serves. ``patience``: seconds from a signal to stop until
    workers that still run are killed. ``on_death``: told the process id of each that died.
    """

    def __init__(
        self, work: Work, count: int, *, patience: float, on_death: Callable[[int], None] = lambda pid: None
    ) -> None:
        self._work, self._patience, self._on_death = work, patience, on_death
        self._workers = [_Worker(number) for number in range(1, count + 1)]
        self._signals: list[int] = []
        self._served = False  # whether any worker ever served

    def run(self, on_stop: Callable[[], None] = lambda: None) -> tuple[int | None, int]:
        """Run until a signal; return it, or None and the exit code of a worker where the first ones cannot start.

        ``on_stop``: called before workers are told to stop.
        """
        with _wakened_by_signals(self._signals) as awake:
            while not self._signals:
                for worker in self._workers:
                    self._start_if_due(worker)
                self._wait(awake)
                code = self._bury()
                if code is not None:
                    self._kill()
                    return None, code
            on_stop()
            self._stop(awake)
        return self._signals[0], 0

    def _start_if_due(self, worker: _Worker) -> None:
        """Start the process of a worker that has none, unless it has to wait."""
        if worker.process is not None or time.monotonic() < worker.start_at:
            return
        context = multiprocessing.get_context("spawn")
        worker.said, theirs = context.Pipe(duplex=False)
        worker.process = context.Process(
            target=self._work, args=(worker.number, theirs), name=f"worker {worker.number}", daemon=True
        )
        worker.serving = False
        resource_tracker.ensure_running()  # it would unblock signals when it is first started
        # Ctrl-C reaches every process of a terminal: workers leave it to the supervisor, and SIGTERM until they begin.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        try:
            worker.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def _wait(self, awake: socket.socket, *, seconds: float = LONGEST_PAUSE) -> None:
        """Wait until a worker says something or ends, a signal arrives, or it is time to start one."""
        waiting = [worker.start_at - time.monotonic() for worker in self._workers if worker.process is None]
        living = [worker for worker in self._workers if worker.process is not None]
        said = [worker.said for worker in living if worker.said is not None]
        wait([awake, *said, *(worker.process.sentinel for worker in living)], max(0.0, min([seconds, *waiting])))
        with suppress(BlockingIOError):
            awake.recv(4096)  # what was read does not wake again
        for worker in living:
            if worker.said is not None and worker.said.poll():
                try:
                    worker.said.recv()
                    worker.serving = self._served = True
                    worker.failures = 0
                except EOFError:
                    pass
                worker.said.close()
                worker.said = None

    def _bury(self) -> int | None:
        """Tell of each worker that ended, and when another is started; the exit code if none was ever able to serve."""
        for worker in self._workers:
            if worker.process is None or worker.process.is_alive():
                continue
            code, pid = worker.process.exitcode, worker.process.pid
            self._on_death(pid)
            worker.process.close()
            worker.process = None
            if self._signals:
                continue
            if not self._served:
                log.error("worker %d (process %d) %s before it could serve: stopping", worker.number, pid, _end(code))
                return max(code, 1)
            worker.failures += not worker.serving
            pause = min(FIRST_PAUSE * 2**worker.failures, LONGEST_PAUSE) if worker.failures else 0.0
            worker.start_at = time.monotonic() + pause
            after = f" in {pause:g} s" if pause else ""
            log.error("worker %d (process %d) %s: starting another%s", worker.number, pid, _end(code), after)
        return None

    def _stop(self, awake: socket.socket) -> None:
        """Tell all workers to stop, and wait; a second signal or the end of patience kills them."""
        for worker in self._workers:
            if worker.process is not None:
                os.kill(worker.process.pid, AT_ONCE if self._signals[0] == signal.SIGINT else signal.SIGTERM)
        until = time.monotonic() + self._patience
        while any(worker.process is not None for worker in self._workers):
            left = until - time.monotonic()
            if len(self._signals) > 1 or left <= 0:
                self._kill()
                return
            self._wait(awake, seconds=left)
            self._bury()

    def _kill(self) -> None:
        """Kill the workers that are left."""
        for worker in self._workers:
            if worker.process is not None:
                worker.process.kill()
                worker.process.join()


def begin_work() -> None:
    """Prepare this process as a worker: SIGTERM and AT_ONCE end it from here on, and so does the supervisor's end."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None

    def watch() -> None:
        """Stop when the supervisor has ended: nobody else would tell this process to."""
        wait([supervisor.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="supervisor", daemon=True).start()


@contextmanager
def _wakened_by_signals(received: list[int]) -> Iterator[socket.socket]:
    """Append signals to a list while the block runs; the socket can be read when one has arrived."""
    awake, waker = socket.socketpair()
    with awake, waker:
        awake.setblocking(False)
        waker.setblocking(False)
        before = {each: signal.signal(each, lambda number, frame: received.append(number)) for each in STOPPING}
        descriptor = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        try:
            yield awake
        finally:
            signal.set_wakeup_fd(descriptor)
            for each, handler in before.items():
                signal.signal(each, handler)


def _end(code: int) -> str:
    """Say how a process ended."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
