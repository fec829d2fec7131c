"""Several programs timed in turn on one machine: A B C, B C A, C A B, …, so that what disturbs one disturbs all."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

BENCH = Path(__file__).resolve().parent


class Turn(NamedTuple):
    """One answered request: how long it took, the pipe included (some 50 µs), what the worker said, and seconds of
    processors, waiting in a loop included (in hundredths), which other work disturbs less."""

    seconds: float
    answer: dict[str, Any]
    cpu: float


class Worker:
    """A child process that works when asked and sleeps otherwise (see ``serving``)."""

    def __init__(self, name: str, command: Sequence[str | Path], *, threads: int) -> None:
        self.name = name
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads),
            # The version that this file belongs to; no file here may bear the name of a package that a peer looks for.
            "PYTHONPATH": f"{BENCH.parent}{os.pathsep}{BENCH}",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.hello = self._read()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def turn(self) -> Turn:
        assert self.process.stdin is not None
        started, used = time.perf_counter(), self._cpu_seconds()
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = self._read()
        return Turn(time.perf_counter() - started, answer, self._cpu_seconds() - used)

    def peak_memory(self) -> float:
        """MiB at the most, summed over the process and its children (VmHWM, so that shared pages count in each)."""
        found = (re.search(r"VmHWM:\s+(\d+)", (each / "status").read_text()) for each in self._processes())
        return sum(int(each[1]) for each in found if each) / 1024

    def _cpu_seconds(self) -> float:
        stats = [(each / "stat").read_text().rpartition(")")[2].split() for each in self._processes()]
        return sum(int(each[11]) + int(each[12]) for each in stats) / os.sysconf("SC_CLK_TCK")

    def _processes(self) -> list[Path]:
        """The process and its children, as Linux shows them."""
        found = [Path(f"/proc/{self.process.pid}")]
        for each in found:
            tasks = [(task / "children").read_text().split() for task in (each / "task").iterdir()]
            found += [Path(f"/proc/{child}") for children in tasks for child in children]
        return found

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with status {self.process.wait()}; its message is above")
        return dict(json.loads(line))


def alternate(
    commands: dict[str, Sequence[str | Path]], *, rounds: int, warm_up: int, threads: int
) -> tuple[dict[str, dict[str, Any]], dict[str, list[Turn]]]:
    """Start every command as a worker; after ``warm_up`` rounds, time ``rounds`` more, one turn a worker each.

    Returns what the workers said at their start, and their turns, warm-up included, by name.
    """
    with ExitStack() as stack:
        workers = []
        for name, command in commands.items():
            print(f"starting {name}", flush=True)
            workers.append(stack.enter_context(Worker(name, command, threads=threads)))
        print(f"timing {rounds} rounds, after {warm_up} of warm-up", flush=True)
        turns: dict[str, list[Turn]] = {worker.name: [] for worker in workers}
        for number in range(warm_up + rounds):
            first = number % len(workers)
            for worker in workers[first:] + workers[:first]:
                turns[worker.name].append(worker.turn())
            print(f"round {number + 1}:", *(f"{each[-1].seconds:.2f}" for each in turns.values()), "s", flush=True)
        return {worker.name: worker.hello | {"peak_mib": worker.peak_memory()} for worker in workers}, turns


def quartiles(values: Sequence[float]) -> dict[str, float]:
    """``low``, ``median`` and ``high``: the quartiles, which one disturbed turn does not move."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"low": low, "median": median, "high": high}
