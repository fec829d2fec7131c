"""Supervisor of worker processes: starts them, replaces those that die, and stops all of them.

SIGHUP replaces all workers, one after another: each continues until its successor serves.

uvicorn's own supervisor ignores a second signal, stops all workers if one of them cannot be restarted, and supports
only its own server.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

log = logging.getLogger("regard.server")
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds before a restart; doubled while workers die before they serve
STOPPING = (signal.SIGINT, signal.SIGTERM)
AT_ONCE = signal.SIGUSR1  # sent to workers for Ctrl-C, which they ignore: stop without waiting for load balancers
RETIRE = signal.SIGUSR2  # sent to a worker whose successor serves: complete its requests, and end
Work = Callable[[int, bool, Connection], None]


@dataclass(eq=False)
class _Worker:
    """Slot of a worker process.

    Attributes:
        number: the number of the worker.
        process: the process, if it runs.
        ready: receives a message when the process serves.
        serving: whether the process serves.
        failures: the number of processes in a row that died before they served.
        start_at: the earliest time of the next start.
        predecessor: the worker that the process replaces, until it serves; None for no worker.
        kill_at: the time at which a process whose successor serves is killed; infinite without a successor.
    """

    number: int
    process: Any = None
    ready: Connection | None = None
    serving: bool = False
    failures: int = 0
    start_at: float = 0.0
    predecessor: _Worker | None = None
    kill_at: float = math.inf


class Supervisor:
    """Supervisor of worker processes.

    Args:
        work: the function ``work(number, replaces, connection)`` of a process, which sends a message once it serves.
            If it replaces another worker, it first loads its models, and ends if it cannot.
        count: the number of processes, numbered from 1.
        patience: the time from a stop signal until workers that still run are killed, in seconds.
        on_death: called with the process id of each worker that died.
    """

    def __init__(
        self, work: Work, count: int, *, patience: float, on_death: Callable[[int], None] = lambda pid: None
    ) -> None:
        self._work, self._patience, self._on_death = work, patience, on_death
        self._workers = [_Worker(number) for number in range(1, count + 1)]
        self._signals: list[int] = []
        self._hangups: list[int] = []
        self._to_replace: list[_Worker] = []
        self._served = False  # whether any worker ever served

    def run(self, on_stop: Callable[[], None] = lambda: None) -> tuple[int | None, int]:
        """Run until a stop signal.

        Args:
            on_stop: called before workers are stopped.

        Returns:
            The signal and 0; or None and the exit code of a worker, if the first workers cannot start.
        """
        with _woken_by_signals(self._signals, self._hangups) as awake:
            while not self._signals:
                self._replace_next()
                for worker in self._workers:
                    self._start_if_due(worker)
                self._wait(awake)
                code = self._handle_deaths()
                if code is not None:
                    self._kill()
                    return None, code
            on_stop()
            self._stop(awake)
        return self._signals[0], 0

    def _start_if_due(self, worker: _Worker) -> None:
        """Start the process of a worker without one, unless its pause is not over."""
        if worker.process is not None or time.monotonic() < worker.start_at:
            return
        context = multiprocessing.get_context("spawn")
        worker.ready, sender = context.Pipe(duplex=False)
        worker.process = context.Process(
            target=self._work,
            args=(worker.number, worker.predecessor is not None, sender),
            name=f"worker {worker.number}",
            daemon=True,
        )
        worker.serving = False
        resource_tracker.ensure_running()  # its first start would unblock the signals
        # Ctrl-C reaches all processes of a terminal. Workers start with blocked signals: SIGINT is for the supervisor
        # only, and SIGTERM is unblocked when the worker is prepared for it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        try:
            worker.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        sender.close()

    def _replace_next(self) -> None:
        """Start the next successor if workers are to be replaced, or retire the worker whose successor serves."""
        successor = next((worker for worker in self._workers if worker.predecessor is not None), None)
        if self._hangups:
            self._hangups.clear()
            old = successor and successor.predecessor
            self._to_replace = [worker for worker in self._workers if worker is not old and worker.kill_at == math.inf]
            log.info("replacing %d workers, one after another", len(self._to_replace))
        if successor is not None:
            if successor.serving:
                self._retire(successor)
            return
        retired = [worker for worker in self._workers if worker.kill_at < math.inf]
        for worker in retired:
            if time.monotonic() >= worker.kill_at:
                worker.process.kill()
        self._to_replace = [worker for worker in self._to_replace if worker in self._workers]
        if self._to_replace and not retired:  # one after another: two models in memory, not one more for each worker
            worker = self._to_replace.pop(0)
            self._workers.append(_Worker(worker.number, predecessor=worker))

    def _retire(self, successor: _Worker) -> None:
        """End the predecessor of a worker that serves."""
        worker, successor.predecessor = successor.predecessor, None
        assert worker is not None
        if worker.process is None:  # it died, and was not started again yet
            self._workers.remove(worker)
            return
        worker.kill_at = time.monotonic() + self._patience
        os.kill(worker.process.pid, RETIRE)

    def _forget(self, worker: _Worker) -> bool:
        """Remove a process that ended and needs no restart; return whether it is such a process."""
        successor = next((other for other in self._workers if other.predecessor is worker), None)
        if worker.kill_at < math.inf:
            log.info("worker %d was replaced", worker.number)
        elif worker.predecessor is not None:
            log.error("the successor of worker %d cannot start; the earlier workers continue", worker.number)
            self._to_replace.clear()
        elif successor is not None:
            log.error("worker %d died before its successor served", worker.number)
            successor.predecessor = None
        else:
            return False
        self._workers.remove(worker)
        return True

    def _wait(self, awake: socket.socket, *, seconds: float = LONGEST_PAUSE) -> None:
        """Wait until a worker is ready or ends, a signal arrives, or it is time to start a worker."""
        waiting = [worker.start_at - time.monotonic() for worker in self._workers if worker.process is None]
        living = [worker for worker in self._workers if worker.process is not None]
        ready = [worker.ready for worker in living if worker.ready is not None]
        wait([awake, *ready, *(worker.process.sentinel for worker in living)], max(0.0, min([seconds, *waiting])))
        with suppress(BlockingIOError):
            awake.recv(4096)  # clears the wake-up bytes
        for worker in living:
            if worker.ready is not None and worker.ready.poll():
                try:
                    worker.ready.recv()
                    worker.serving = self._served = True
                    worker.failures = 0
                except EOFError:
                    pass
                worker.ready.close()
                worker.ready = None

    def _handle_deaths(self) -> int | None:
        """Log dead workers and schedule their restart; return the exit code if no worker has ever served."""
        for worker in list(self._workers):
            if worker.process is None or worker.process.is_alive():
                continue
            code, pid = worker.process.exitcode, worker.process.pid
            self._on_death(pid)
            worker.process.close()
            worker.process = None
            if self._signals or self._forget(worker):
                continue
            if not self._served:
                log.error("worker %d (process %d) %s before it served; stopping", worker.number, pid, _end(code))
                return max(code, 1)
            worker.failures += not worker.serving
            pause = min(FIRST_PAUSE * 2**worker.failures, LONGEST_PAUSE) if worker.failures else 0.0
            worker.start_at = time.monotonic() + pause
            after = f" in {pause:g} s" if pause else ""
            log.error("worker %d (process %d) %s; restarting%s", worker.number, pid, _end(code), after)
        return None

    def _stop(self, awake: socket.socket) -> None:
        """Stop all workers and wait for them; kill them after a second signal or at the end of the patience."""
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
            self._handle_deaths()

    def _kill(self) -> None:
        """Kill the remaining workers."""
        for worker in self._workers:
            if worker.process is not None:
                worker.process.kill()
                worker.process.join()


def begin_work() -> None:
    """Prepare this process as a worker: SIGTERM, AT_ONCE, RETIRE and the end of the supervisor stop it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # for the supervisor only
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None

    def watch() -> None:
        """Stop this process when the supervisor has ended."""
        wait([supervisor.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="supervisor", daemon=True).start()


@contextmanager
def _woken_by_signals(received: list[int], hangups: list[int]) -> Iterator[socket.socket]:
    """Append signals to lists while the block runs; the socket becomes readable when a signal arrives."""
    awake, waker = socket.socketpair()
    with awake, waker:
        awake.setblocking(False)
        waker.setblocking(False)
        handlers = {
            stopping: signal.signal(stopping, lambda number, frame: received.append(number)) for stopping in STOPPING
        }
        on_hangup = hangup_handler(partial(hangups.append, signal.SIGHUP), partial(received.append, signal.SIGTERM))
        handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, on_hangup)
        descriptor = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        try:
            yield awake
        finally:
            signal.set_wakeup_fd(descriptor)
            for stopping, handler in handlers.items():
                signal.signal(stopping, handler)


def hangup_handler(reload: Callable[[], object], stop: Callable[[], object]) -> Callable[[int, Any], None]:
    """Return a handler of SIGHUP, which reloads; but if the terminal of this process was closed, it stops."""
    had_terminal = os.isatty(0)

    def handle(number: int, frame: Any) -> None:
        """Reload or stop."""
        if had_terminal and not os.isatty(0):
            stop()
        else:
            reload()

    return handle


def _end(code: int) -> str:
    """Describe how a process ended."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
