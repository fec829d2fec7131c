"""Worker processes of one machine: start them, read their messages, and restart them when they die."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from regard import errors
from regard.bulk.worker import Order, Report
from regard.errors import RegardError, StorageError

# Limits of consecutive deaths of workers that began no lines: with an error, or by a signal, which may come from
# outside. After any other death the job makes progress, because the block is halved.
FAILED, KILLED = 3, 12


COMMAND = [sys.executable, "-m", "regard.bulk.worker"]


class _Process:
    """A worker process; its messages go to a queue, with None at its end."""

    def __init__(self, order: Order, messages: queue.Queue[tuple[_Process, dict[str, Any] | None]]) -> None:
        self.process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
            start_new_session=True,  # the parent handles Ctrl-C, and ends it
        )  # fmt: skip
        self.order, self.begun = order, False
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(order._asdict()) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # dead already: its exit code shows the reason
        self._listener = threading.Thread(target=self._listen, args=(messages,), daemon=True)
        self._listener.start()

    def _listen(self, messages: queue.Queue[tuple[_Process, dict[str, Any] | None]]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):  # otherwise an incomplete message of a killed process
                messages.put((self, json.loads(line)))
        self.process.wait()
        messages.put((self, None))

    def stop(self) -> None:
        """End the process, unless it has ended, and close its pipes."""
        self.process.kill()
        self._listener.join()
        with suppress(BrokenPipeError):
            self.process.communicate()


def run_processes(order: Order, workers: int, report: Report, log: Callable[[str], None]) -> None:
    """Process a share of a job with several worker processes. A dead worker is restarted and continues.

    Args:
        order: the job.
        workers: number of processes.
        report: called with the number of a block and its finished lines.
        log: called with messages for people.

    Raises:
        RegardError: of a worker.
        StorageError: workers die before they begin any lines.
    """
    messages: queue.Queue[tuple[_Process, dict[str, Any] | None]] = queue.Queue()
    with _stopped_at_the_end() as processes:
        processes += [_Process(_placed(order, index), messages) for index in range(workers)]
        fruitless = 0
        while processes:
            process, message = messages.get()
            if message is None:
                processes.remove(process)
                process.stop()
                code = process.process.returncode
                if code == 0:
                    continue
                fruitless = 0 if process.begun else fruitless + 1
                how = _described(code)
                if fruitless >= (KILLED if code < 0 else FAILED):
                    help = "use fewer --workers if memory is short; see their output above"
                    raise StorageError("the workers die before they begin any lines", why=how, help=help)
                log(f"a worker {how}; it is restarted")
                processes.append(_Process(process.order, messages))
            elif "error" in message:
                raise _error(message["error"])
            elif "block" in message:
                report(message["block"], message["done"])
            else:
                process.begun = True


@contextmanager
def _stopped_at_the_end() -> Iterator[list[_Process]]:
    processes: list[_Process] = []
    try:
        yield processes
    finally:
        for process in processes:
            process.stop()


def _placed(order: Order, index: int) -> Order:
    """Return the order for one of several workers: each uses the next GPU of the machine."""
    device = order.spec.get("device")
    if device in (None, "cuda"):
        import torch

        if (count := torch.cuda.device_count()) > 1:
            return order._replace(spec={**order.spec, "device": f"cuda:{index % count}"})
    return order


def _described(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _error(fields: list[str | None]) -> RegardError:
    name, what, where, why, help = fields
    kind = getattr(errors, str(name), RegardError)
    error: RegardError = kind(str(what), where=where, why=why, help=help)
    return error
