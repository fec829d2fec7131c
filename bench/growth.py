"""Growth of time and memory with length, batch, vocabulary, beam and attended length: fitted exponents and a plot.

    .venv/bin/python bench/growth.py [--series window dense global-local linear mamba2]

One quantity grows while the others stay. A point is a process of its own: an update (forward, backward, Adam) of the
preset in bfloat16, the decoding of 16 pieces in float32, or self-attention forward and backward in float32, within a
window (``window``, ``causal window``, and with four sinks ``sinks``), over the whole sequence (``dense``, ``causal
dense``), or what stands in its place (see ``attention_work.py``); timed a few times after a first, and
the most memory above what the model itself took. One thread is timed by its own clock, so that a busy machine disturbs
less, several by that on the wall. The exponent is that of a straight line through the logarithms of the
upper half of the points. Writes runs/bench/growth.json and growth.png.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from attention_work import ATTENTION, DENSE, attention_pass
from environments import ROOT
from machine import machine

FOLDER = ROOT / "runs" / "bench"
ENOUGH = 1.5  # seconds of timing a point
TINY = 1e-9  # stands for nothing in a logarithm
RAMPS = {
    "length": [2**n for n in range(4, 13)],
    "batch": [2**n for n in range(9)],
    "vocabulary": [2**n for n in range(10, 17)],
    "beam": [2**n for n in range(6)],
    "attended": [2**n for n in range(10, 15)],
}
USUAL = {"length": 32, "batch": 16, "vocabulary": 8192, "beam": 1, "attended": 1024}
FEWER = {"length": {"batch": 1}}  # while length grows to thousands, one sentence is enough
SERIES = [
    *(("train", name) for name in ("length", "batch", "vocabulary")),
    *(("decode", name) for name in ("length", "batch", "vocabulary", "beam")),
    *((work, "attended") for work in ATTENTION),
]
WORKS = tuple(dict.fromkeys(work for work, _ in SERIES))


class Point(NamedTuple):
    """One measurement: ``seconds``, the median, and ``bytes`` at the peak above the model."""

    value: int
    seconds: float
    bytes: int


def main() -> None:
    arguments = _arguments()
    if arguments.point:
        print(json.dumps(_measured(json.loads(arguments.point))))
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = {}
    about = machine()
    print(f"{about['processor']}, {arguments.threads} threads, {' '.join(about['instructions'])}; {about['written']}")
    for work, name in SERIES:
        if work not in arguments.series:
            continue
        ramp = [value for value in RAMPS[name] if work not in DENSE or value <= arguments.dense_up_to]
        points = [_point(arguments, work, name, value) for value in ramp]
        found[f"{work} · {name}"] = points
        _print(work, name, points)
    result = {
        "machine": about,
        "settings": {
            "preset": arguments.preset,
            "threads": arguments.threads,
            "usual": USUAL,
            "radius": arguments.radius,
        },
        "series": {
            name: {"points": [point._asdict() for point in points], **_exponents(points)}
            for name, points in found.items()
        },
    }
    (FOLDER / "growth.json").write_text(json.dumps(result, indent=2))
    _draw(found, FOLDER / "growth.png")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--series", nargs="+", choices=WORKS, default=WORKS)
    parser.add_argument("--radius", type=int, default=64, help="positions before and after its own in a window")
    parser.add_argument("--dense-up-to", type=int, default=4096, help="keys; beyond, dense attention takes minutes")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    return parser.parse_args()


def _point(arguments: argparse.Namespace, work: str, name: str, value: int) -> Point:
    task = USUAL | FEWER.get(name, {}) | {name: value}
    task |= {"work": work, "preset": arguments.preset, "threads": arguments.threads, "radius": arguments.radius}
    command = [sys.executable, __file__, "--point", json.dumps(task)]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return Point(value, **answer)


def _measured(task: dict[str, Any]) -> dict[str, float]:
    import torch

    torch.set_num_threads(task["threads"])
    run = _prepared(task)
    clock = time.process_time if task["threads"] == 1 else time.perf_counter
    before = _reset_peak()
    run()
    times = []
    while len(times) < 3 or sum(times) < ENOUGH:
        began = clock()
        run()
        times.append(clock() - began)
    return {"seconds": statistics.median(times), "bytes": _peak() - before}


def _prepared(task: dict[str, Any]) -> Callable[[], Any]:
    """The work of a point, ready to be done again and again."""
    import torch
    from work import decoding, fast, model, update

    if task["work"] in ATTENTION:
        return attention_pass(task["work"], task["attended"], task["radius"])
    sizes = {"batch": task["batch"], "length": task["length"], "types": task["vocabulary"]}
    made = model(task["preset"], task["vocabulary"])
    if task["work"] == "train":
        return update(made.to(torch.bfloat16), **sizes, threads=task["threads"])
    return decoding(fast(made, "float32"), **sizes, beam=task["beam"])


def _reset_peak() -> int:
    """Forget the most memory so far; returns what is taken now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


def _exponents(points: list[Point]) -> dict[str, float]:
    """Of time and memory over the upper half, and the steepest of any two neighbors: a cliff would stand out."""
    upper = points[len(points) // 2 :]
    steps = [_slope([one, other], "seconds") for one, other in itertools.pairwise(points)]
    return {"time": _slope(upper, "seconds"), "memory": _slope(upper, "bytes"), "steepest": max(steps)}


def _slope(points: list[Point], what: str) -> float:
    x = [math.log(point.value) for point in points]
    y = [math.log(max(getattr(point, what), TINY)) for point in points]
    return statistics.linear_regression(x, y).slope


def _print(work: str, name: str, points: list[Point]) -> None:
    found = _exponents(points)
    print(
        f"\n{work} against {name}: time ~ n^{found['time']:.2f}, memory ~ n^{found['memory']:.2f}; "
        f"steepest step n^{found['steepest']:.2f}"
    )
    for point in points:
        print(f"{point.value:>8,}{point.seconds * 1e3:>12,.1f} ms{point.bytes / 1e6:>10,.0f} MB", flush=True)


def _draw(found: dict[str, list[Point]], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(RAMPS), figsize=(15, 7), layout="constrained")
    for column, name in enumerate(RAMPS):
        for row, (what, unit, scale) in enumerate((("seconds", "ms", 1e3), ("bytes", "MB", 1e-6))):
            for work in WORKS:
                if points := found.get(f"{work} · {name}"):
                    label = f"{work}: n^{_exponents(points)['time' if row == 0 else 'memory']:.2f}"
                    heights = [max(getattr(point, what), TINY) * scale for point in points]
                    axes[row, column].loglog([point.value for point in points], heights, marker="o", label=label)
            axes[row, column].set(xlabel=name, ylabel=unit)
            axes[row, column].grid(alpha=0.3)
            if axes[row, column].lines:
                axes[row, column].legend()
    figure.savefig(path, dpi=110)
    print(f"\n{path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
