"""Memory of ``regard translate`` from a large file to a file.

    .venv/bin/python bench/translate_memory.py --lines 1000000

The model is as small as one can be, since what is in question is what the lines cost: a layer of width 32 each side,
words of one letter, greedy. Prints MiB after a tenth of the time, the most, and those at the end; ends with an error
unless the output has a line for each line. Writes below runs/bench/translate-memory.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from environments import ROOT
from machine import machine

FOLDER = ROOT / "runs" / "bench" / "translate-memory"
LETTERS = "abcdefghijkl"
PAIRS = 2_000  # to train on, until outputs are about as long as their sources
SMALL = (
    "model.layers=1", "model.width=32", "model.heads=2", "model.feed_forward=32",
    "train.steps=60", 'data.tokenizer={kind="word"}', "train.precision=float32", "data.joint=true",
)  # fmt: skip


def main() -> None:
    arguments = _arguments()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    pairs, text, output = FOLDER / "pairs", FOLDER / "big.txt", FOLDER / "out.txt"
    _write(pairs, PAIRS)
    _write(text, arguments.lines)
    sets = [part for each in SMALL for part in ("--set", each)]
    subprocess.run([*_regard("train"), pairs, pairs, "--name", "small", "--runs", FOLDER, *sets], check=True)
    translate = [*_regard("translate"), FOLDER / "small", text, "-o", output, "--beam", "1"]
    translate += ["--threads", str(arguments.threads)]
    about = machine()
    print(f"{about['processor']}, {arguments.threads} threads; {about['written']}; {arguments.lines:,} lines")
    seen = watch(translate)
    print(
        f"{seen[len(seen) // 10]:.0f} MiB after a tenth of the time, {max(seen):.0f} at most, {seen[-1]:.0f} at the end"
    )
    found = sum(1 for _ in output.open(encoding="utf-8"))
    if found != arguments.lines:
        sys.exit(f"{found:,} lines came out")


def watch(command: list[str | Path], *, every: float = 0.5) -> list[float]:
    """MiB that the process has in memory, at regular times until it ends."""
    seen: list[float] = []
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            seen.append(_resident(process.pid))
            time.sleep(every)
    if process.returncode:
        sys.exit(f"exit code {process.returncode}")
    return [each for each in seen if each]  # a process that has just ended has none


def _resident(pid: int) -> float:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _write(path: Path, lines: int) -> None:
    draw = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(lines):
            file.write(" ".join(draw.choices(LETTERS, k=draw.randint(2, 5))) + "\n")


def _regard(verb: str) -> list[str | Path]:
    return [sys.executable, "-c", "from regard.cli import main; main()", verb]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
