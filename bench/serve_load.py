"""A server under load: clients that each ask for a sentence, wait for it, and ask for the next.

    .venv/bin/python bench/serve_load.py RUN TEXT                # 1, 8 and 64 clients, batching against one at a time
    .venv/bin/python bench/serve_load.py RUN TEXT --beside TREE  # this version against another one, in the tree TREE
    .venv/bin/python bench/serve_load.py RUN TEXT --ctranslate2 EXPORTED --engine int8  # against a thin server of that
    .venv/bin/python bench/serve_load.py RUN TEXT --soak 10      # ten minutes of mixed load: does its memory grow?

``RUN`` is a trained run, ``TEXT`` lines in the language that it reads. Both servers are ``regard serve`` with the same
threads; one searches ``--rows 256`` hypotheses together, the other ``--rows 1``, which is a sentence after another.
They are measured in turn; clients are this process, on the same machine. Writes runs/bench/serve-load.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from alternate import BENCH
from environments import ROOT
from machine import machine

from regard.data.text_files import read_lines

FOLDER = ROOT / "runs" / "bench"
LOST = 999  # in place of a status
SIDES = {"together": ["--rows", "256"], "one at a time": ["--rows", "1"]}


class Server(NamedTuple):
    port: int
    process: subprocess.Popen[str]

    def memory(self) -> float:
        """MiB that it holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


class Load(NamedTuple):
    """What clients saw: seconds of each answer, and how many of each status."""

    seconds: list[float]
    statuses: Counter[int]
    lasted: float


def main() -> None:
    arguments = _arguments()
    lines = [line for line in read_lines(arguments.text) if line.strip()][:1000]
    result: dict[str, Any] = {
        "machine": machine(),
        "settings": {key: str(value) for key, value in vars(arguments).items()},
    }
    if arguments.soak:
        result["soak"] = _soak(arguments, lines)
    elif arguments.beside or arguments.ctranslate2:
        _compare(arguments, lines)
    else:
        result["load"] = _load(arguments, lines)
        result["overload"] = _overload(arguments, lines)
    FOLDER.mkdir(parents=True, exist_ok=True)
    name = "serve-soak.json" if arguments.soak else "serve-load.json"
    (FOLDER / name).write_text(json.dumps(result, indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--beside", type=Path, help="a working tree of another version, which is served instead")
    parser.add_argument("--ctranslate2", type=Path, help="the run exported to CTranslate2: a thin server of it instead")
    parser.add_argument("--soak", type=float, help="minutes of mixed load instead")
    return parser.parse_args()


@contextmanager
def _serving(arguments: argparse.Namespace, *options: str, tree: Path = ROOT) -> Iterator[Server]:
    command = [
        sys.executable, "-c", "from regard.cli import main; main()", "serve", str(arguments.run.resolve()),
        "--port", "0", "--threads", str(arguments.threads), "--engine", arguments.engine, "--req-limit", "1000000",
        *options,
    ]  # fmt: skip
    with _started(command, tree) as server:
        yield server


@contextmanager
def _thin_server(arguments: argparse.Namespace) -> Iterator[Server]:
    command = [
        sys.executable, str(BENCH / "peers" / "ctranslate2_serve.py"), str(arguments.run.resolve()),
        str(arguments.ctranslate2.resolve()), "--port", "8765", "--threads", str(arguments.threads),
        "--kind", arguments.engine,
    ]  # fmt: skip
    with _started(command, ROOT) as server:
        yield server


@contextmanager
def _started(command: list[str], tree: Path) -> Iterator[Server]:
    environment = os.environ | {"PYTHONPATH": str(tree.resolve())}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=tree)
    try:
        assert process.stderr is not None
        found = next(filter(None, (re.search(r"running on http://127.0.0.1:(\d+)", line) for line in process.stderr)))
        server = Server(int(found[1]), process)
        _drain(process)
        until = time.monotonic() + 120
        while asyncio.run(ask(server.port, "GET", "/readyz"))[0] != 200:
            assert time.monotonic() < until
            time.sleep(0.2)
        yield server
    finally:
        process.terminate()
        process.wait()


def _drain(process: subprocess.Popen[str]) -> None:
    """Its log is read, lest it stand still."""
    import threading

    assert process.stderr is not None
    threading.Thread(target=lambda: [None for _ in process.stderr], daemon=True).start()  # type: ignore[union-attr]


def _load(arguments: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with _serving(arguments, *SIDES["together"]) as together, _serving(arguments, *SIDES["one at a time"]) as single:
        servers = dict(zip(SIDES, (together, single), strict=True))
        for server in servers.values():
            asyncio.run(clients(server.port, lines, 8, 3))
        for count in arguments.clients:
            loads: dict[str, list[Load]] = {name: [] for name in SIDES}
            for turn in range(arguments.rounds):
                for name in SIDES if turn % 2 else reversed(SIDES):
                    loads[name].append(asyncio.run(clients(servers[name].port, lines, count, arguments.seconds)))
            found[str(count)] = {name: figures(each) for name, each in loads.items()}
            ratio = statistics.median(rate(one) / rate(other) for one, other in zip(*loads.values(), strict=True))
            found[str(count)]["ratio"] = ratio
            _tell(count, found[str(count)])
    return found


def _compare(arguments: argparse.Namespace, lines: list[str]) -> None:
    if arguments.ctranslate2:
        other = _thin_server(arguments)
    else:
        other = _serving(arguments, tree=arguments.beside)
    with _serving(arguments) as ours, other as theirs:
        sides = {"this version": ours, "the other": theirs}
        for server in sides.values():
            asyncio.run(clients(server.port, lines, 8, 3))
        for count in arguments.clients:
            loads: dict[str, list[Load]] = {name: [] for name in sides}
            for _ in range(arguments.rounds):
                for name, server in sides.items():
                    loads[name].append(asyncio.run(clients(server.port, lines, count, arguments.seconds)))
            found: dict[str, Any] = {name: figures(each) for name, each in loads.items()}
            ratios = [rate(one) / rate(other) for one, other in zip(*loads.values(), strict=True)]
            for name, each in found.items():
                print(f"{count:>3} clients  {name:14} {each['rate']:7.1f} sentences/s  p50 {each['p50']:7.0f} ms  "
                      f"p99 {each['p99']:7.0f} ms  {each['statuses']}")  # fmt: skip
            for name, server in sides.items():
                print(f"{count:>3} clients  {name:14} {server.memory():7.0f} MiB")
            print(
                f"{count:>3} clients  {statistics.median(ratios):.2f} [{min(ratios):.2f} {max(ratios):.2f}]", flush=True
            )


def _tell(count: int, found: dict[str, Any]) -> None:
    for name in SIDES:
        each = found[name]
        print(f"{count:>3} clients  {name:14} {each['rate']:7.1f} sentences/s  p50 {each['p50']:7.0f} ms  "
              f"p99 {each['p99']:7.0f} ms  {each['statuses']}")  # fmt: skip
    print(f"{count:>3} clients  together / one at a time: {found['ratio']:.2f}", flush=True)


def figures(loads: list[Load]) -> dict[str, Any]:
    seconds = sorted(second for load in loads for second in load.seconds)
    statuses: Counter[int] = sum((load.statuses for load in loads), Counter())
    return {
        "rate": statistics.median(rate(load) for load in loads),
        "p50": 1000 * statistics.median(seconds),
        "p99": 1000 * seconds[int(0.99 * (len(seconds) - 1))],
        "statuses": dict(statuses),
    }


def rate(load: Load) -> float:
    return load.statuses[200] / load.lasted


def _overload(arguments: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    """More than may wait: how many are told to come back, and how soon."""
    with _serving(arguments, "--queue", "4", "--rows", "4") as server:
        load = asyncio.run(clients(server.port, lines, 64, 5))
    told = {"statuses": dict(load.statuses), "slowest_ms": 1000 * max(load.seconds)}
    print(f"overload, 64 clients where 4 may wait: {told}", flush=True)
    return told


async def clients(port: int, lines: list[str], count: int, seconds: float) -> Load:
    began = time.monotonic()
    found = await asyncio.gather(*(_client(port, lines, number, began + seconds) for number in range(count)))
    answers = [answer for each in found for answer in each]
    return Load([each for each, _ in answers], Counter(status for _, status in answers), time.monotonic() - began)


async def _client(port: int, lines: list[str], number: int, until: float) -> list[tuple[float, int]]:
    draw, answers = random.Random(number), []
    while time.monotonic() < until:
        began = time.perf_counter()
        body = json.dumps({"text": draw.choice(lines)})
        status, _ = await ask(port, "POST", "/v1/translate", body.encode())
        answers.append((time.perf_counter() - began, status))
        if status in (0, 429):
            await asyncio.sleep(0.05)
    return answers


async def ask(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """One request on a connection of its own, which costs the machine little; 0: refused, LOST: never answered."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return 0, b""
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    try:
        answer = await reader.read()
    except ConnectionResetError:
        answer = b""
    writer.close()
    return int(answer[9:12] or LOST), answer.partition(b"\r\n\r\n")[2]


def _soak(arguments: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    """Sentences, lists, n-best lists, wide beams, looks inside, wrong requests, and clients that hang up."""
    with _serving(arguments, *SIDES["together"]) as server:
        points, statuses = asyncio.run(_mixed(server, lines, 60 * arguments.soak))
    half = len(points) // 2
    early, late = (
        statistics.median(memory for _, memory in part) for part in (points[half // 2 : half], points[half:])
    )
    print(f"{sum(statuses.values()):,} requests in {arguments.soak:g} minutes: {dict(statuses)}")
    print(f"memory: {points[0][1]:.0f} MiB at first, {early:.0f} in the second quarter, {late:.0f} in the second half")
    return {"memory_mib": points, "statuses": dict(statuses), "second_quarter": early, "second_half": late}


async def _mixed(server: Server, lines: list[str], seconds: float) -> tuple[list[tuple[float, float]], Counter[int]]:
    began, points, statuses = time.monotonic(), [], Counter[int]()

    async def watch() -> None:
        while time.monotonic() < began + seconds:
            points.append((time.monotonic() - began, server.memory()))
            await asyncio.sleep(5)

    async def client(number: int) -> None:
        draw = random.Random(number)
        while time.monotonic() < began + seconds:
            status = await _one_of_many(server.port, lines, draw)
            statuses[status] += 1

    await asyncio.gather(watch(), *(client(number) for number in range(16)))
    return points, statuses


async def _one_of_many(port: int, lines: list[str], draw: random.Random) -> int:
    texts = draw.choices(lines, k=draw.randint(1, 12))
    asked: list[tuple[str, Any]] = [
        ("/v1/translate", {"text": texts[0]}),
        ("/v1/translate", {"text": texts}),
        ("/v1/translate", {"text": texts[0], "beam": draw.randint(1, 10), "nbest": 1}),
        ("/translate", {"q": " ".join(texts[:4]), "source": "auto", "target": "de", "alternatives": 2}),
        ("/v1/inspect", {"text": texts[0]}),
        ("/v1/translate", {"texts": "wrong"}),
    ]
    path, body = draw.choices(asked, weights=[40, 10, 10, 10, 1, 5])[0]
    asking = ask(port, "POST", path, json.dumps(body).encode())
    if draw.random() < 0.1:  # who leaves before the answer is there
        try:
            return (await asyncio.wait_for(asking, draw.random() / 10))[0]
        except TimeoutError:
            return -1
    return (await asking)[0]


if __name__ == "__main__":
    main()
