"""Latency of streams: a word in to words out.

    .venv/bin/python bench/stream_latency.py RUN TEXT                # one stream, one thread, each policy
    .venv/bin/python bench/stream_latency.py RUN TEXT --streams 32   # clients of a server, 3 words a second each

``RUN`` is a trained translation run, ``TEXT`` lines in the language that it reads. One stream is measured in this
process. With ``--streams``, ``regard serve`` runs on the machine of its clients, with one thread for the model. A
client sends a word every 1/3 s to ``POST /v1/stream`` and waits for the answer. A word is measured from the moment when
it was due, also if the server is behind. Writes runs/bench/stream-latency.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from environments import ROOT
from machine import machine

from regard.data.text_files import read_lines

FOLDER = ROOT / "runs" / "bench"
POLICIES = {"wait-k": 5, "local-agreement": 1, "alignatt": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=100, help="of one stream")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--engine", default="float32", help="float32, or int8 for 8-bit products")
    parser.add_argument("--streams", type=int, help="clients of a server instead")
    parser.add_argument("--threads", type=int, default=1, help="of the server's model")
    parser.add_argument("--rate", type=float, default=3.0, help="words a second of each client")
    parser.add_argument("--seconds", type=float, default=30)
    arguments = parser.parse_args()
    lines = [line for line in read_lines(arguments.text) if line.strip()][:1000]
    figures = one_stream(arguments, lines) if arguments.streams is None else many_streams(arguments, lines)
    settings = {key: str(value) for key, value in vars(arguments).items()}
    FOLDER.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine(), "settings": settings, "figures": figures}
    (FOLDER / "stream-latency.json").write_text(json.dumps(result, indent=2))


def one_stream(arguments: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    """Return p50 and p99 of each policy in ms, in this process with one thread."""
    import torch

    from regard.inference.streamed import stream_texts
    from regard.inspection.streams import StreamSettings, open_stream
    from regard.runs.run_folder import RunFolder
    from regard.tasks.translation.translator import load

    torch.set_num_threads(1)
    run, figures = RunFolder.open(arguments.run), {}
    model = load(arguments.run, engine=arguments.engine)
    search = model.search.model_copy(update={"beam": arguments.beam})
    for policy, lag in POLICIES.items():
        streaming = open_stream(run, model, StreamSettings(policy, lag, splits=False), search=search)  # type: ignore[arg-type]
        stream_texts(streaming, lines[:5])
        steps = [step for one in stream_texts(streaming, lines[: arguments.lines]) for step in one.steps]
        figures[f"{policy}, lag {lag}"] = report(f"{policy}, lag {lag}", steps)
    return figures


def many_streams(arguments: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    """Return p50 and p99 of each policy in ms, over all clients of one server."""
    figures = {}
    with serving(arguments.run, arguments.threads, arguments.engine) as port:
        for policy, lag in POLICIES.items():
            asyncio.run(clients(port, lines, policy, lag, arguments, seconds=3))
            steps = asyncio.run(clients(port, lines, policy, lag, arguments, seconds=arguments.seconds))
            name = f"{arguments.streams} streams, {policy}, lag {lag}"
            figures[name] = report(name, steps)
    return figures


def report(name: str, steps: list[float]) -> dict[str, float]:
    p50, p99 = (1000 * float(np.percentile(steps, share)) for share in (50, 99))
    print(f"{name:<34} {len(steps):>6} words  p50 {p50:7.1f} ms  p99 {p99:7.1f} ms", flush=True)
    return {"words": len(steps), "p50": p50, "p99": p99, "mean": 1000 * statistics.fmean(steps)}


async def clients(
    port: int, lines: list[str], policy: str, lag: int, arguments: argparse.Namespace, *, seconds: float
) -> list[float]:
    """Return the seconds of each word of all clients, which begin at different moments."""
    end = time.perf_counter() + seconds
    running = [
        _client(
            port,
            lines,
            {"policy": policy, "lag": lag, "beam": arguments.beam},
            1 / arguments.rate,
            end,
            random.Random(number),
        )
        for number in range(arguments.streams)
    ]
    return [step for own in await asyncio.gather(*running) for step in own]


async def _client(
    port: int, lines: list[str], settings: dict[str, Any], pause: float, end: float, draw: random.Random
) -> list[float]:
    steps: list[float] = []
    connection = await asyncio.open_connection("127.0.0.1", port)
    due = time.perf_counter() + draw.uniform(0, pause)
    while time.perf_counter() < end:
        words, state = draw.choice(lines).split(), {}
        for read in range(1, len(words) + 1):
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            text, final = " ".join(words[:read]) + " ", read == len(words)
            reply = await _post({"text": text, "final": final, "split": False, **settings, **state}, *connection)
            steps.append(time.perf_counter() - due)
            state = {name: reply[name] for name in ("committed", "unstable", "cursor")}
            due += pause
            if time.perf_counter() >= end:
                break
    connection[1].close()
    return steps


async def _post(body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, Any]:
    """Return the answer on a connection that stays open; a library would take as much of the machine as the server."""
    raw = json.dumps(body).encode()
    head = "POST /v1/stream HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw)
    reply = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = re.search(r"\r\ncontent-length: (\d+)", reply)
    assert reply.startswith("http/1.1 200") and length is not None, reply
    answer: dict[str, Any] = json.loads(await reader.readexactly(int(length[1])))
    return answer


@contextmanager
def serving(run: Path, threads: int = 1, engine: str = "float32") -> Iterator[int]:
    command = [sys.executable, "-m", "regard", "serve", str(run.resolve()), "--port", "0", "--threads", str(threads)]
    command += ["--engine", engine]
    process = subprocess.Popen([*command, "--req-limit", "1000000"], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stderr is not None
        lines = (re.search(r"running on http://127.0.0.1:(\d+)", line) for line in process.stderr)
        port = int(next(filter(None, lines))[1])
        threading.Thread(target=lambda: [None for _ in process.stderr or ()], daemon=True).start()  # else it blocks
        until = time.monotonic() + 120
        while httpx.get(f"http://127.0.0.1:{port}/readyz").status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
