"""Runs ``regard compare`` in forked children, and its members in theirs; imports torch only once.

One JSON object a line on standard input: ``arguments``, and ``output`` and ``said``, files for standard output and
error. It answers with a line as the child begins, its process id, and with one as it ends: its exit code, or minus the
number of the signal.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import sacrebleu.metrics  # noqa: F401  this and what else each child would have to import by itself
import torch
import torch._dynamo

import regard.comparison.member
import regard.comparison.results
import regard.core.figure
import regard.metrics.text
import regard.tasks.translation.translator
import regard.training.start  # noqa: F401
from regard import cli
from regard.comparison import execution

torch.set_num_threads(1)  # a child has one thread: the others do not live through a fork
WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class Forked:
    """What a comparison uses of ``subprocess.Popen``, by a fork in which the command's ``-c`` is executed."""

    def __init__(
        self, command: list[str], *, stdin: int, stdout: int, env: dict[str, str], pass_fds: list[int],
        process_group: int,
    ) -> None:  # fmt: skip
        assert stdin == subprocess.PIPE and command[:-2] == [sys.executable, "-P", "-c"]
        code, job = command[-2:]
        reading, self.writing = os.pipe()
        self.pid = fork(lambda: self._begin(reading, stdout, pass_fds, process_group), lambda: execute(code, job))
        os.close(reading)

    @staticmethod
    def _begin(reading: int, stdout: int, pass_fds: list[int], process_group: int) -> None:
        os.setpgid(0, process_group)
        os.dup2(reading, 0)
        os.dup2(stdout, 1)
        for number in set(range(3, 256)) - set(pass_fds):  # as a new process has none of them
            os.closerange(number, number + 1)

    def wait(self, timeout: float) -> int:
        until = time.monotonic() + timeout
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired([], timeout)
            time.sleep(0.005)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.writing)


def fork(begin: Callable[[], None], work: Callable[[], int]) -> int:
    """The process id of a child that calls both and ends with the code that ``work`` returns or exits with."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            signal.signal(number, handler)
        begin()
        code = work()
    except SystemExit as error:
        code = int(error.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


def execute(code: str, argument: str) -> int:
    sys.argv = ["-c", argument]
    exec(code, {"__name__": "__main__"})
    return 0


def compare(job: dict[str, Any]) -> None:
    def begin() -> None:
        for number, name in ((1, "output"), (2, "said")):
            os.dup2(os.open(job[name], WRITE, 0o600), number)

    child = fork(begin, lambda: cli.run(["compare", *job["arguments"]]))
    answer(child)
    answer(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    execution.subprocess = SimpleNamespace(  # type: ignore[assignment]
        Popen=Forked, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired
    )
    for line in sys.stdin:
        compare(json.loads(line))
