"""Processes that meet over gloo on this machine, as torchrun would start them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["free_port", "run_jobs"]

LIMIT = 300  # seconds


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
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
        for process in processes:
            process.wait(LIMIT)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    logs = [(folder / f"rank-{rank}.log").read_text() for rank in range(world)]
    outputs = [folder / f"rank-{rank}.json" for rank in range(world)]
    assert all(output.exists() for output in outputs), "\n".join(logs)
    return [json.loads(output.read_text()) for output in outputs]
