"""Bulk work on this machine: workers killed at random, lines a second by way of working, and 10⁹ lines on paper.

    .venv/bin/python bench/bulk.py --lines 5000

The model is as small as one can be. Shows, for processes and, where it is installed, for Ray: every line once, in
order, the same bytes as of ``regard translate``, while workers are killed with -9 at random moments and the command
itself once; then the rates, in turn; then the plan for many machines (``reckoned``), from a rate given or measured.
Writes below runs/bench/bulk.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from environments import ROOT
from machine import machine

from regard.bulk.scan import blocks_of

FOLDER = ROOT / "runs" / "bench" / "bulk"
LETTERS = "abcdefgh"
SMALL = (
    "model.layers=1", "model.width=32", "model.heads=2", "model.feed_forward=64", "model.dropout=0.0",
    'data.tokenizer={kind="word"}', "train.steps=300", "train.learning_rate=0.01", "train.precision=float32",
)  # fmt: skip
WORKERS = ("regard.bulk.worker", "ray::MapWorker")  # in the command line of a process that may be killed
Command = list[str | Path]


def main() -> None:
    arguments = _arguments()
    if arguments.rate is None:
        arguments.rate = _measured(arguments)
    print(f"\n10⁹ lines at {arguments.rate:,.0f} lines a second and machine, {arguments.price:.2f} an hour of one:")
    for machines in (1, 100, 1000):
        print("  " + reckoned(10**9, machines, arguments))


def reckoned(lines: int, machines: int, given: argparse.Namespace) -> str:
    """The hours and the price of a job on paper.

    Work is divided evenly, so the slowest machine ends one block after the others. One process reads all inputs first
    to cut them, at ``scan`` bytes a second, while the others wait; one joins the outputs at the end, which are read and
    written at the rate of the disk. Each machine starts its processes and loads the model once.
    """
    work = lines * (1 - given.repeated) / (given.rate * machines)
    alone = lines * given.bytes * (1 / given.scan + 2 / given.disk) + given.start
    last = given.block / given.rate
    hours = (work + alone + last) / 3600
    paid = (machines * (work + last + given.start) + lines * given.bytes * machines / given.scan) / 3600
    return (
        f"{machines:>5,} machines: {hours:>10,.1f} h, {paid * given.price:>10,.0f}; of it {work / 3600:,.2f} h of "
        f"work, {alone / 3600:,.2f} h of cutting, starting and joining, {last / 60:,.1f} min for the last block"
    )


def _measured(arguments: argparse.Namespace) -> float:
    """Show what the job withstands and how fast it is; return lines a second of one machine."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    inputs, small = _prepare(arguments.lines)
    about = machine()
    print(f"{about['processor']}; {about['written']}; {arguments.lines:,} lines in {len(inputs)} files")
    ways = {"1 process": ["--workers", "1"], "2 processes": ["--workers", "2"]}
    if find_spec("ray") is not None and find_spec("pandas") is not None:
        ways |= {"1 actor": ["--on", "ray", "--workers", "1"], "2 actors": ["--on", "ray", "--workers", "2"]}
    expected = {path.name: _text(_translate(small, path)) for path in inputs}
    for way, options in list(ways.items())[1::2] if arguments.kills else ():
        _survive(way, [*_translate(small, *inputs), *options], expected, arguments)
    rates: dict[str, list[float]] = {}
    for turn in range(arguments.rounds):
        runs: dict[str, Callable[[], object]] = {
            "regard translate": lambda: [_text(_translate(small, p)) for p in inputs]
        }
        for way, options in ways.items():
            folder = FOLDER / f"rate-{turn}-{way.replace(' ', '-')}"
            command = [*_translate(small, *inputs), "-o", f"{folder}/", *options]
            runs[way] = lambda command=command: subprocess.run(command, check=True, capture_output=True)
        for way in random.sample(list(runs), len(runs)):
            began = time.perf_counter()
            runs[way]()
            rates.setdefault(way, []).append(arguments.lines / (time.perf_counter() - began))
    for way, found in rates.items():
        spread = f"[{min(found):,.0f} {max(found):,.0f}]"
        print(f"{way:>18}: {statistics.median(found):8,.0f} lines/s, starting included {spread}")
    arguments.scan = _scan_rate(inputs[0])
    print(f"{'cutting':>18}: {arguments.scan / 1e6:8,.0f} MB/s, counted and hashed")
    return statistics.median(rates["2 processes"])


def _survive(way: str, command: Command, expected: dict[str, bytes], arguments: argparse.Namespace) -> None:
    """Kill workers of the command at random moments, and itself once; exit unless each line is there, in order."""
    folder = FOLDER / f"killed-{way.replace(' ', '-')}"
    command = [*command, "-o", f"{folder}/", "--block", "256"]
    draw, kills, starts = random.Random(arguments.seed), 0, 0
    while True:
        starts += 1
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        until = time.monotonic() + draw.uniform(20, 30)
        while process.poll() is None:
            time.sleep(draw.uniform(0.2, arguments.every))
            victims = [pid for pid, line in _descendants(process.pid) if any(word in line for word in WORKERS)]
            if starts == 1 and time.monotonic() > until:
                for pid, _ in [*_descendants(process.pid), (process.pid, "")]:
                    _kill(pid)
            elif victims and kills < arguments.kills:
                kills += 1
                _kill(draw.choice(victims))
        if process.returncode == 0:
            break
        if process.returncode != -signal.SIGKILL:
            sys.exit(f"{way}: exit code {process.returncode}")
    found = {name: (folder / name).read_bytes() for name in expected}
    if found != expected:
        sys.exit(f"{way}: the outputs differ from those of one process")
    lines = sum(text.count(b"\n") for text in found.values())
    print(f"{way}: {kills} workers killed, {starts} starts; {lines:,} lines, the bytes of one process", flush=True)
    if (folder / "quarantine.jsonl").exists():
        sys.exit("sound lines were set aside")


def _descendants(pid: int) -> Iterator[tuple[int, str]]:
    """All processes that a process has started, and those have, with their command lines."""
    parents: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parents.setdefault(int((each / "stat").read_text().rpartition(")")[2].split()[1]), []).append(
                int(each.name)
            )
        except (OSError, IndexError):
            continue
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), ()):
            waiting.append(child)
            try:
                yield child, Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _prepare(lines: int) -> tuple[list[Path], Path]:
    """Two inputs, and a run that writes them in capitals."""
    draw = random.Random(1)

    def write(path: Path, count: int) -> Path:
        words = (" ".join(draw.choices(LETTERS, k=draw.randint(2, 6))) for _ in range(count))
        path.write_text("".join(f"{line}\n" for line in words), encoding="utf-8")
        return path

    source, target = write(FOLDER / "train", 2000), FOLDER / "train.capitals"
    target.write_text(source.read_text(encoding="utf-8").upper(), encoding="utf-8")
    sets = [part for each in SMALL for part in ("--set", each)]
    train = [*_regard("train"), source, target, "--name", "small", "--runs", FOLDER, *sets]
    subprocess.run(train, check=True, capture_output=True)
    first = lines // 3
    return [write(FOLDER / "a.txt", first), write(FOLDER / "b.txt", lines - first)], FOLDER / "small"


def _scan_rate(source: Path) -> float:
    """Bytes a second that are cut into blocks, of a file of 128 MB."""
    text, large = source.read_bytes(), FOLDER / "large.txt"
    large.write_bytes(text * (2**27 // len(text)))
    began = time.perf_counter()
    for _ in blocks_of(large, 8192, lambda count: None):
        pass
    seconds = time.perf_counter() - began
    size = large.stat().st_size
    large.unlink()
    return size / seconds


def _text(command: Command) -> bytes:
    return subprocess.run(command, check=True, capture_output=True).stdout


def _translate(run: Path, *inputs: Path) -> Command:
    return [*_regard("translate"), run, *inputs, "--threads", "1"]


def _regard(verb: str) -> Command:
    return [sys.executable, "-m", "regard", verb]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kills", type=int, default=6, help="of workers, in each way of working; 0: rates alone")
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two kills at most")
    parser.add_argument("--seed", type=int, default=1)
    plan = parser.add_argument_group("the plan on paper")
    plan.add_argument("--rate", type=float, help="lines a second of a machine; measures nothing")
    plan.add_argument("--price", type=float, default=0.40, help="of an hour of a machine")
    plan.add_argument("--bytes", type=float, default=60.0, help="of a line")
    plan.add_argument("--repeated", type=float, default=0.0, help="part of the lines that a block has already")
    plan.add_argument("--block", type=int, default=8192, help="lines of a block")
    plan.add_argument("--start", type=float, default=10.0, help="seconds until a machine begins")
    plan.add_argument("--scan", type=float, default=4e8, help="bytes a second that are cut into blocks")
    plan.add_argument("--disk", type=float, default=2e8, help="bytes a second that the shared disk reads or writes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
