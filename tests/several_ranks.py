"""Processes that meet over gloo on this machine, as torchrun would start them."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["free_port", "run_jobs"]

LIMIT = 240  # seconds
GRACE = 30  # seconds in which the other ranks end after one has failed


def free_port() -> int:
    """Draw a port that no connection of this machine gets by itself: the port may be used half a minute later."""
    while True:
        port = random.SystemRandom().randrange(10_000, 30_000)  # Linux gives away ports from 32768 on
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def run_jobs(
    folder: Path, jobs: Sequence[tuple[str, dict[str, Any]]], world: int = 2, module: str = "tests.rank_worker"
) -> list[list[dict[str, Any]]]:
    """What each rank found in each of these jobs of ``tests.rank_worker``: by rank, then by job."""
    root = Path(__file__).parent.parent
    given = json.dumps([(name, free_port(), arguments) for name, arguments in jobs])
    processes = []
    for rank in range(world):
        place = {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1"}
        command = [sys.executable, "-m", module, str(folder / f"rank-{rank}.json"), given]
        environment = os.environ | place | {"OMP_NUM_THREADS": "1"}
        with (folder / f"rank-{rank}.log").open("w") as log:
            processes.append(subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=log))
    try:
        _wait(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    logs = [(folder / f"rank-{rank}.log").read_text() for rank in range(world)]
    outputs = [folder / f"rank-{rank}.json" for rank in range(world)]
    assert all(output.exists() for output in outputs), "\n".join(logs)
    return [json.loads(output.read_text()) for output in outputs]


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until all have ended; only for a while once one has failed, since the others may wait for it forever."""
    end = time.monotonic() + LIMIT
    while any(process.poll() is None for process in processes) and time.monotonic() < end:
        if any(process.poll() for process in processes):
            end = min(end, time.monotonic() + GRACE)
        time.sleep(0.05)
