"""Training and translation with half a core: ``python bench/half_core.py [--updates N] [--lines N]``.

Runs ``regard train`` and ``regard translate`` without a limit, and in a control group with a quota of half a core, as a
container has. Within the limit, each is measured with the threads that Regard chooses and with one thread for each
core of the machine. The model and its sentence pairs are made here. Needs Linux and root, to make a control group.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
PERIOD, QUOTA = 100_000, 50_000  # microseconds
NAME = f"regard-half-core-{os.getpid()}"
SKIPPED = 3  # updates whose time includes the start
REGARD = [sys.executable, "-m", "regard"]


@contextmanager
def half_core() -> Iterator[Path]:
    """Make a control group with half a core. Raises OSError if this machine does not allow it."""
    version_1 = (GROUPS / "cpu" / "cpu.cfs_quota_us").exists() or (GROUPS / "cpu" / "cpu.shares").exists()
    group = GROUPS / "cpu" / NAME if version_1 else GROUPS / NAME
    if not version_1 and not (GROUPS / "cgroup.controllers").exists():
        raise OSError("no control groups are mounted in /sys/fs/cgroup")
    group.mkdir()
    try:
        if version_1:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(QUOTA))
        else:
            (group / "cpu.max").write_text(f"{QUOTA} {PERIOD}")
        yield group
    finally:
        group.rmdir()


def run(group: Path | None, threads: int | None, *arguments: str | Path, stdin: str = "") -> tuple[str, float]:
    """Run a command of Regard; return its output and its seconds."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    join = "" if group is None else f"echo $$ > {group}/cgroup.procs && "
    began = time.perf_counter()
    done = subprocess.run(
        ["sh", "-c", join + 'exec "$@"', "sh", *REGARD, *map(str, arguments)],
        input=stdin, env=environment, stdout=subprocess.PIPE, text=True, check=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout, time.perf_counter() - began


def train(runs: Path, name: str, group: Path | None, threads: int | None, folder: Path, updates: int) -> float:
    """Return the target tokens per second of a training."""
    settings = [
        "model.layers=2", "model.width=128", "model.feed_forward=512", "model.heads=4", "train.precision=float32",
        f"train.steps={updates}", "train.batch_tokens=1024", "train.baseline=false", f"train.validate_every={updates}",
    ]  # fmt: skip
    options = [part for setting in settings for part in ("--set", setting)]
    files = (folder / "source.txt", folder / "target.txt")
    run(group, threads, "train", *files, *options, "--name", name, "--runs", runs)
    lines = map(json.loads, (runs / name / "metrics.jsonl").read_text().splitlines())
    figures = [line for line in lines if "tokens" in line][SKIPPED:]
    return sum(line["tokens"] for line in figures) / sum(line["seconds"] for line in figures)


def translate(model: Path, group: Path | None, threads: int | None, lines: list[str]) -> float:
    """Return the lines per second of a translation without the time of the start."""
    start = min(run(group, threads, "translate", model, stdin=lines[0] + "\n")[1] for _ in range(2))
    _, seconds = run(group, threads, "translate", model, stdin="".join(f"{line}\n" for line in lines))
    return (len(lines) - 1) / (seconds - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="the best one of each case counts")
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--lines", type=int, default=4000)
    options = parser.parse_args()
    draw = random.Random(1)
    sources = [
        " ".join("".join(draw.choices("abcdefgh", k=4)) for _ in range(draw.randint(5, 15))) for _ in range(4000)
    ]
    with tempfile.TemporaryDirectory() as created:
        folder = Path(created)
        (folder / "source.txt").write_text("".join(f"{line}\n" for line in sources))
        (folder / "target.txt").write_text("".join(f"{line[::-1]}\n" for line in sources))
        try:
            with half_core() as group:
                rounds = [
                    measure(folder / f"round-{number}", folder, group, sources[: options.lines], options.updates)
                    for number in range(options.rounds)
                ]
        except OSError as error:
            print(f"skipped: this machine does not allow a control group with half a core: {error}")
            return
    rows = [
        (*case[0][:2], *(max(row[index] for row in case) for index in (2, 3))) for case in zip(*rounds, strict=True)
    ]
    first = rows[0]
    print(f"{'':<34}{'threads':>8}{'tokens/s trained':>20}{'lines/s translated':>22}")
    for name, threads, trained, translated in rows:
        shares = (f"{trained:,.0f} ({trained / first[2]:.2f} ×)", f"{translated:,.1f} ({translated / first[3]:.2f} ×)")
        print(f"{name:<34}{threads:>8}{shares[0]:>20}{shares[1]:>22}")


def measure(
    runs: Path, folder: Path, group: Path, lines: list[str], updates: int
) -> list[tuple[str, int, float, float]]:
    """Return name, threads, trained tokens per second and translated lines per second of each case."""
    rows = []
    for number, (name, limit, threads) in enumerate((
        ("no limit", None, None),
        ("half a core", group, None),
        ("half a core, a thread per core", group, os.cpu_count()),
    )):  # fmt: skip
        facts = json.loads(run(limit, threads, "doctor", "--json")[0])["facts"]
        used = int(facts["threads"].removeprefix("torch uses "))
        trained = train(runs, f"run-{number}", limit, threads, folder, updates)
        rows.append((name, used, trained, translate(runs / "run-0", limit, threads, lines)))
    return rows


if __name__ == "__main__":
    main()
