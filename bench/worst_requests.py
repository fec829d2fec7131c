"""The longest pause of a server's event loop under the worst requests that its limits allow.

The table of requests is that of the tests. The server computes with small models, whose work is not what is measured; a
task on its loop wakes every millisecond and keeps the longest time between two of its turns. The client is a process of
its own, so that it does not compute in the server's.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx

from tests.server.conftest import create_server, running
from tests.server.copying import capitals
from tests.server.predicting import book, mean
from tests.server.worst_requests import worst_requests

BEAT = 0.001  # seconds
GOAL = 50.0  # milliseconds
IDLE = "(no request for 0.3 s)"  # what other processes of the machine do to the loop


class Heartbeat:
    """Longest time between two turns of a task on the event loop, since ``reset``."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(BEAT)
            now = time.perf_counter()
            self.longest = max(self.longest, now - last - BEAT)
            last = now

    def reset(self) -> float:
        """Return the longest pause in milliseconds, and forget it."""
        longest, self.longest = self.longest, 0.0
        return 1e3 * longest


def send_all(url: str, runs: int, connection: Connection) -> None:
    """Send each request ``runs`` times, and its name before and its status after it; the body of the client."""
    for number in range(runs + 1):  # the first run warms up
        connection.send((number, IDLE))
        time.sleep(0.3)
        connection.send((number, 0))
        for request in worst_requests():
            connection.send((number, request.name))
            headers = {"content-type": request.media_type} if request.body else {}
            answer = httpx.request(
                request.method, url + request.path, content=request.body, headers=headers, timeout=120
            )
            connection.send((number, answer.status_code))
    connection.send(None)


def measure(runs: int) -> dict[str, tuple[int, list[float]]]:
    """Return the status and the longest pause in each run, in milliseconds, by name of the request."""
    heartbeat = Heartbeat()
    models = [capitals(waiting=256)[0], capitals("other", "fr", "de")[0], mean()[0], book()]
    for model in models:
        model.on_loaded = gc.freeze  # as ``ServerPlan`` does
    server, _ = create_server(models, requests_per_minute=10**6)
    server.on_serving = heartbeat.start
    found: dict[str, tuple[int, list[float]]] = {}
    with running(server) as port:
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        arguments = (f"http://127.0.0.1:{port}", runs, theirs)
        client = multiprocessing.get_context("spawn").Process(target=send_all, args=arguments)
        client.start()
        while (began := ours.recv()) is not None:
            heartbeat.reset()
            number, status = ours.recv()
            pause = heartbeat.reset()
            if number:
                found.setdefault(began[1], (status, []))[1].append(pause)
        client.join()
    return found


def _arguments() -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="how often each request is sent")
    return parser.parse_args()


def main() -> None:
    """Print a table, the longest pauses first."""
    found = measure(_arguments().runs)
    print(f"{'request':<45} status  median ms  longest ms")
    for name, (status, pauses) in sorted(found.items(), key=lambda item: -max(item[1][1])):
        print(f"{name[:45]:<45} {status:>6}  {statistics.median(pauses):>9.1f}  {max(pauses):>10.1f}")
    longest = max(max(pauses) for name, (_, pauses) in found.items() if name != IDLE)
    print(f"\nlongest pause of {len(found) - 1} requests: {longest:.1f} ms (goal: {GOAL:.0f} ms)")


if __name__ == "__main__":
    main()
