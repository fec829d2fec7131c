"""A rolling restart under load: clients that each wait for a sentence and ask for the next, on kept connections.

    .venv/bin/python bench/rolling_restart.py RUN TEXT              # two workers, all replaced after SIGHUP
    .venv/bin/python bench/rolling_restart.py RUN TEXT --workers 1  # one process, whose model is reloaded

Loads without and with a restart are measured in turn. The restart begins after a fifth of the time; a measurement is
valid only if it ends before the load does. Lost requests are those without an answer, or with another status than 200.
Clients are this process, on the same machine. Writes runs/bench/rolling-restart.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from environments import ROOT
from machine import machine

from regard.data.text_files import read_lines

LOST = 0  # in place of a status
PORT = 5004


class Load(NamedTuple):
    """What clients saw: seconds of each answer, statuses, and the seconds that the restart took (0: none)."""

    seconds: list[float]
    statuses: Counter[int]
    restart: float


class Server(NamedTuple):
    process: subprocess.Popen[bytes]
    log: Path
    ended: str  # in the log, for each part of a restart
    parts: int

    def restarted(self) -> int:
        return self.log.read_text().count(self.ended) // self.parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=40, help="of each load")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    lines = [line for line in read_lines(arguments.text) if line.strip()][:1000]
    loads: dict[bool, list[Load]] = {False: [], True: []}
    with _serving(arguments) as server:
        asyncio.run(_load(server, lines, arguments.clients, 3, restart=False))
        for turn in range(arguments.rounds):
            for restart in (False, True) if turn % 2 else (True, False):
                load = asyncio.run(_load(server, lines, arguments.clients, arguments.seconds, restart=restart))
                loads[restart].append(load)
                print(f"{'restart' if restart else 'none':8} {_figures([load])}", flush=True)
    found: dict[str, Any] = {"none": _figures(loads[False]), "restart": _figures(loads[True])}
    ratios = [
        _percentile(one, 99) / _percentile(other, 99) for one, other in zip(loads[True], loads[False], strict=True)
    ]
    found["ratio of p99"] = statistics.median(ratios), min(ratios), max(ratios)
    print(json.dumps(found, indent=2))
    folder = ROOT / "runs" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    settings = {key: str(value) for key, value in vars(arguments).items()}
    written = json.dumps({"machine": machine(), "settings": settings, "found": found}, indent=2)
    (folder / "rolling-restart.json").write_text(written)


@contextmanager
def _serving(arguments: argparse.Namespace) -> Iterator[Server]:
    workers = arguments.workers
    command = [sys.executable, "-m", "regard", "serve", str(arguments.run), "--port", str(PORT), "--threads", "1"]
    command += ["--req-limit", "1000000", "--workers", str(workers)]
    with tempfile.TemporaryDirectory() as folder, open(Path(folder, "log"), "wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        try:
            until, in_a_row = time.monotonic() + 120, 0
            while in_a_row < 10:  # of several workers, each has to be ready
                assert process.poll() is None and time.monotonic() < until, Path(folder, "log").read_text()
                in_a_row = in_a_row + 1 if _is_ready() else 0
                time.sleep(0.1)
            ended = "was replaced" if workers > 1 else "reloaded the models"
            yield Server(process, Path(folder, "log"), ended, workers)
        finally:
            process.terminate()
            process.wait()


def _is_ready() -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{PORT}/readyz", timeout=10).status_code == 200
    except httpx.TransportError:
        return False


async def _load(server: Server, lines: list[str], count: int, seconds: float, *, restart: bool) -> Load:
    """Load the server for some seconds; with ``restart``, send SIGHUP after a fifth of them."""
    until, before = time.monotonic() + seconds, server.restarted()
    clients = [asyncio.create_task(_client(lines, number, until)) for number in range(count)]
    took = 0.0
    if restart:
        await asyncio.sleep(seconds / 5)
        began = time.monotonic()
        server.process.send_signal(signal.SIGHUP)
        while server.restarted() == before:
            assert time.monotonic() < until, "the restart did not end before the load: more --seconds"
            await asyncio.sleep(0.1)
        took = time.monotonic() - began
    answers = [answer for client in clients for answer in await client]
    statuses = Counter(status for _, status in answers)
    return Load([duration for duration, status in answers if status == 200], statuses, took)


async def _client(lines: list[str], number: int, until: float) -> list[tuple[float, int]]:
    """Duration and status of each request of a client."""
    answers, draw = [], random.Random(number)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{PORT}", timeout=60) as client:
        while time.monotonic() < until:
            began = time.perf_counter()
            try:
                status = (await client.post("/v1/translate", json={"text": draw.choice(lines)})).status_code
            except httpx.TransportError as error:
                print(f"lost: {error!r}")
                status = LOST
            answers.append((time.perf_counter() - began, status))
    return answers


def _figures(loads: list[Load]) -> dict[str, Any]:
    return {
        "requests": sum(sum(load.statuses.values()) for load in loads),
        "lost": sum(count for load in loads for status, count in load.statuses.items() if status != 200),
        "p50": round(statistics.median(_percentile(load, 50) for load in loads), 1),
        "p99": round(statistics.median(_percentile(load, 99) for load in loads), 1),
        "restart": round(statistics.median(load.restart for load in loads), 1),
    }


def _percentile(load: Load, percent: int) -> float:
    """Milliseconds."""
    return statistics.quantiles(load.seconds, n=100, method="inclusive")[percent - 1] * 1000


if __name__ == "__main__":
    main()
