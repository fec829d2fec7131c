"""Replicas under load: workers beside one process with as many threads, nginx and Ray Serve in front of replicas.

    .venv/bin/python bench/replicas.py RUN TEXT workers              # --workers 2 beside one process with two threads
    .venv/bin/python bench/replicas.py RUN TEXT nginx                # two replicas behind nginx, one of them drained
    .venv/bin/python bench/replicas.py RUN TEXT ray --python PYTHON  # two replicas of Ray Serve beside --workers 2

Sides are measured in turn, so that what else the machine does falls on both. ``PYTHON`` is that of an environment with
``ray[serve]`` and Regard. Clients are this process, on the same machine. Writes runs/bench/replicas-*.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import serve_load
from environments import ROOT
from machine import machine

from regard.data.text_files import read_lines

NGINX, REPLICAS, RAY = 5080, (5001, 5002), 8000  # the ports of deploy/nginx.conf, and Ray Serve's own
LIMIT = ["--req-limit", "1000000"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("what", choices=["workers", "nginx", "ray"])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable, help="for Ray Serve")
    arguments = parser.parse_args()
    lines = [line for line in read_lines(arguments.text) if line.strip()][:1000]
    found = {"workers": _workers, "nginx": _nginx, "ray": _ray}[arguments.what](arguments, lines)
    settings = {key: str(value) for key, value in vars(arguments).items()}
    folder = ROOT / "runs" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    written = json.dumps({"machine": machine(), "settings": settings, "found": found}, indent=2)
    (folder / f"replicas-{arguments.what}.json").write_text(written)


@contextmanager
def _serving(run: Path, port: int, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "regard", "serve", str(run), "--port", str(port), *LIMIT, *options]
    with _running(command, port) as process:
        yield process


@contextmanager
def _running(command: list[str], port: int, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        until, in_a_row = time.monotonic() + 240, 0
        while in_a_row < 10:  # of several workers, each has to be asked
            assert process.poll() is None and time.monotonic() < until, command
            in_a_row = in_a_row + 1 if asyncio.run(serve_load.ask(port, "GET", "/readyz"))[0] == 200 else 0
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait()


def _workers(arguments: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    with _serving(arguments.run, 5003, "--workers", "2", "--drain", "2") as workers:
        with _serving(arguments.run, 5004, "--threads", "2"):
            found = _in_turn(arguments, lines, {"two workers": 5003, "one process": 5004})
        found["drain"] = _stopped(arguments, lines, 5003, workers)
    return found


def _nginx(arguments: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    if not Path(program).exists():
        sys.exit("nginx is not installed: apt-get install nginx-light")
    options = ["--threads", "1", "--drain", "2", "--trusted-proxy", "127.0.0.1"]
    with ExitStack() as stack:
        first, _ = (stack.enter_context(_serving(arguments.run, port, *options)) for port in REPLICAS)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        command = [
            program,
            "-p",
            folder,
            "-e",
            "stderr",
            "-c",
            str(ROOT / "deploy" / "nginx.conf"),
            "-g",
            "daemon off;",
        ]
        stack.enter_context(_running(command, NGINX))
        found = _in_turn(arguments, lines, {"nginx": NGINX, "one replica": REPLICAS[1]})
        found["one of two drained"] = _stopped(arguments, lines, NGINX, first)
    return found


def _ray(arguments: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    environment = os.environ | {
        "RUN": str(arguments.run.resolve()), "REPLICAS": "2", "THREADS": "1", "CPUS": "0.5", "REQUESTS": "1000000",
        "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0",
    }  # fmt: skip
    command = [arguments.python, "-m", "ray.serve.scripts", "run", "deploy.ray_serve:app"]
    with (
        _running(command, RAY, env=environment, cwd=ROOT),
        _serving(arguments.run, 5003, "--workers", "2"),
    ):
        return _in_turn(arguments, lines, {"Ray Serve": RAY, "two workers": 5003})


def _in_turn(arguments: argparse.Namespace, lines: list[str], ports: dict[str, int]) -> dict[str, Any]:
    """Rate and times of each of two sides, measured in turn, and the median ratio of their rates."""
    loads: dict[str, list[serve_load.Load]] = {name: [] for name in ports}
    for port in ports.values():
        asyncio.run(serve_load.clients(port, lines, arguments.clients, 2))
    for turn in range(arguments.rounds):
        for name in ports if turn % 2 else reversed(ports):
            loads[name].append(
                asyncio.run(serve_load.clients(ports[name], lines, arguments.clients, arguments.seconds))
            )
    found: dict[str, Any] = {name: serve_load.figures(each) for name, each in loads.items()}
    for name, each in found.items():
        print(f"{name:12} {each['rate']:7.1f} sentences/s  p50 {each['p50']:6.0f} ms  p99 {each['p99']:6.0f} ms  "
              f"{each['statuses']}")  # fmt: skip
    ratios = [serve_load.rate(one) / serve_load.rate(other) for one, other in zip(*loads.values(), strict=True)]
    found["ratio"] = statistics.median(ratios)
    print(f"{' / '.join(ports)}: {found['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)
    return found


def _stopped(
    arguments: argparse.Namespace, lines: list[str], port: int, process: subprocess.Popen[bytes]
) -> dict[str, Any]:
    """Stop a server under load: what its clients saw, by status; 0 is a connection that was refused."""

    async def stop_under_load() -> serve_load.Load:
        load = asyncio.create_task(serve_load.clients(port, lines, arguments.clients, 10))
        await asyncio.sleep(3)
        process.send_signal(signal.SIGTERM)
        return await load

    statuses: Counter[int] = asyncio.run(stop_under_load()).statuses
    code = process.wait(60)
    print(f"stopped under load: {dict(statuses)}, exit code {code}", flush=True)
    return {"statuses": dict(statuses), "code": code}


if __name__ == "__main__":
    main()
