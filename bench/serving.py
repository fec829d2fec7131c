"""The worker's end of a comparison: do one unit of work whenever asked, over stdin and stdout, a JSON line each.

Needs the standard library alone, because workers run in the environments of other software, too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class Served:
    """``asked`` waits for the next request and is False when there will be none; ``answer`` replies to it."""

    def __init__(self) -> None:
        # Whatever libraries print goes to stderr: stdout carries answers and nothing else.
        self._replies: TextIO = os.fdopen(os.dup(sys.stdout.fileno()), "w")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def answer(self, **values: Any) -> None:
        print(json.dumps(values), file=self._replies, flush=True)

    def asked(self) -> bool:
        return bool(sys.stdin.readline())

    def __iter__(self) -> Iterator[None]:
        while self.asked():
            yield
