"""Runs command lines in forked children, each killed or signalled at a chosen moment; imports torch only once.

One JSON object a line on standard input: ``arguments``; ``log`` and ``trace``, files that what the child prints and
the moments it passes are appended to; ``signal``, ``point`` and ``count``: what to send itself at the ``count``-th
moment called ``point`` (``*``: any), and at the next ``then`` again. It answers with one line: the exit code, or
minus the number of the signal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import sacrebleu.metrics  # noqa: F401  this and what else each child would have to import by itself
import torch
import torch._dynamo

import regard.metrics.text
import regard.models.build
import regard.runs.averaging
import regard.tasks.translation.translator
import regard.training.display
import regard.training.start
import regard.training.trainer  # noqa: F401
from regard import cli
from regard.core import atomic_files
from regard.inference.decoding import Decoding

torch.set_num_threads(1)  # a child has one thread: the others do not live through a fork


def main() -> None:
    begin = Decoding.open

    def marked(self: Decoding, *arguments: Any, **options: Any) -> Any:
        atomic_files.fault_point("decoding")
        return begin(self, *arguments, **options)

    Decoding.open = marked  # type: ignore[method-assign]
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(json.loads(line))
        status = os.waitpid(child, 0)[1]
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run(job: dict[str, Any]) -> None:
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    atomic_files.fault = _fault(job)
    code = 99
    try:
        code = cli.run(job["arguments"])
    except SystemExit as error:
        code = int(error.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _fault(job: dict[str, Any]) -> Callable[[str], None]:
    trace = os.open(job["trace"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    left, again = job["count"], job["then"]

    def fault(point: str) -> None:
        nonlocal left, again
        os.write(trace, f"{point}\n".encode())
        if left < 0 and point == again:
            again = None
            os.kill(os.getpid(), job["signal"])
        if job["point"] in ("*", point):
            left -= 1
            if left == 0:
                left = -1
                os.kill(os.getpid(), job["signal"])

    return fault


if __name__ == "__main__":
    main()
