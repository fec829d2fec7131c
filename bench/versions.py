"""Times training, decoding and serving of two versions of Regard, in turn.

    git worktree add --detach ../before 61cb22e
    REGARD_DATA=folder python bench/versions.py ../before [--rounds 5] [--threads 1]

Each job is a command of either version, started again in each round, with the same data, settings and seed. Elapsed
and processor seconds of the whole process are measured, and the ratio (after / before) within each round. Both versions
decode with the run that the earlier one trained, and serve it to eight clients. At most 3 % slower counts as equal.
``part`` is the time of the updates alone, as ``metrics.jsonl`` records it, or of the requests. Writes
runs/bench/versions.json. ``REGARD_DATA`` holds multi30k, sst, ud-lines and lm-tinyshakespeare.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from alternate import quartiles
from environments import ROOT
from machine import machine

FOLDER = ROOT / "runs" / "bench" / "versions"
LINES, REQUESTS, CLIENTS = 400, 400, 8
STEPS = {"translation": 30, "classification": 60, "tagging": 60, "language-model": 40}


class Version(NamedTuple):
    """One source tree, and the folder with its runs."""

    name: str
    tree: Path

    @property
    def runs(self) -> Path:
        return FOLDER / self.name

    def start(self, *arguments: str | Path, threads: int) -> subprocess.Popen[bytes]:
        bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(FOLDER / "bytecode")}
        environment = os.environ | bytecode | {
            "PYTHONPATH": str(self.tree), "OMP_NUM_THREADS": str(threads), "COLUMNS": "200",
        }  # fmt: skip
        with (FOLDER / f"{self.name}.log").open("ab") as log:
            command = [sys.executable, "-m", "regard", *map(str, arguments)]
            return subprocess.Popen(command, cwd=FOLDER, env=environment, stdout=log, stderr=log)


class Timed(NamedTuple):
    """Processor seconds of a whole process, or None; and elapsed seconds of the part that counts, such as requests."""

    processor: float | None
    part: float | None = None


Job = Callable[[Version], Timed]


def main() -> None:
    arguments = _arguments()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    versions = [Version("before", arguments.before.resolve()), Version("after", ROOT)]
    training = _training_files(Path(os.environ["REGARD_DATA"]))
    print("instructions:", ", ".join(machine()["instructions"]), "· threads:", arguments.threads, flush=True)
    rows = []
    for name, job in _jobs(training, arguments.threads, versions[0]).items():
        if not arguments.jobs or any(word in name for word in arguments.jobs):
            rows.append(_in_turn(name, job, versions, arguments.rounds))
    report = {"machine": machine(), "rounds": arguments.rounds, "threads": arguments.threads, "rows": rows}
    (FOLDER.parent / "versions.json").write_text(json.dumps(report, indent=2))


def _jobs(training: dict[str, list[str | Path]], threads: int, first: Version) -> dict[str, Job]:
    """Return what is timed, in an order in which the runs exist that later jobs read."""

    def train(task: str) -> Job:
        def job(version: Version) -> float:
            run = version.runs / task
            shutil.rmtree(run, ignore_errors=True)
            command = ("train", *training[task], "--runs", version.runs, "--name", task, *_settings(task, threads))
            processor = _finished(version.start(*command, threads=threads))
            records = map(json.loads, (run / "metrics.jsonl").read_text("utf-8").splitlines())
            return Timed(processor, sum(record.get("seconds", 0.0) for record in records))

        return job

    def read(verb: str, task: str, *options: str | Path) -> Job:
        return lambda version: Timed(_finished(version.start(verb, first.runs / task, *options, threads=threads)))

    jobs = {f"train {task}": train(task) for task in training}
    jobs["translate"] = read("translate", "translation", FOLDER / "lines.en")
    jobs["classify"] = read("classify", "classification", FOLDER / "texts.txt")
    jobs["tag"] = read("tag", "tagging", FOLDER / "texts.txt")
    jobs["generate"] = read("generate", "language-model", FOLDER / "prompts.txt", "--seed", "1", "--length", "64")
    jobs["serve, 8 clients"] = lambda version: Timed(None, _serve(version, first.runs / "translation", threads))
    return jobs


def _settings(task: str, threads: int) -> list[str]:
    steps = STEPS[task]
    keys = {
        "train.steps": steps, "train.precision": "float32", "train.threads": threads, "train.workers": 1,
        "seed": 1, "train.validate_every": steps, "train.save_every": steps, "train.warmup": 20,
        "train.batch_tokens": 1024,
    }  # fmt: skip
    return [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]


def _training_files(data: Path) -> dict[str, list[str | Path]]:
    """Return the arguments of each training; write the lines that are decoded."""

    def unpacked(path: Path, name: str, lines: int) -> Path:
        target = FOLDER / name
        with gzip.open(path, "rt", encoding="utf-8") as source:
            target.write_text("".join(line for line, _ in zip(source, range(lines), strict=False)), "utf-8")
        return target

    pairs = [unpacked(data / "multi30k" / f"train.{side}.gz", f"train.{side}", 8000) for side in ("en", "de")]
    labels = unpacked(data / "sst" / "sst2-train.tsv.gz", "labels.tsv", 6000)
    text = unpacked(data / "lm-tinyshakespeare" / "input.txt.gz", "text.txt", 8000)
    tags = sorted((data / "ud-lines").glob("*train*"))[0]
    lines = (data / "multi30k" / "test_2016_flickr.en").read_text("utf-8").splitlines()
    prompts = ["O my lord,", "Enter the king", "What news", "Come, sir"] * 16
    for name, content in (("lines.en", lines[:LINES]), ("texts.txt", lines * 20), ("prompts.txt", prompts)):
        (FOLDER / name).write_text("\n".join(content) + "\n", "utf-8")
    valid: list[str | Path] = ["--valid", data / "multi30k" / "val.en", data / "multi30k" / "val.de"]
    return {
        "translation": [*pairs, *valid, "--set", "model.preset=small"], "classification": [labels],
        "tagging": [tags], "language-model": [text],
    }  # fmt: skip


def _finished(process: subprocess.Popen[bytes]) -> float:
    """Wait for a process; return its processor seconds."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{process.args} ended with status {process.returncode}; see {FOLDER}/*.log")
    return usage.ru_utime + usage.ru_stime


def _serve(version: Version, run: Path, threads: int) -> float:
    """Return the seconds in which the server answers all requests, without its start."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = version.start("serve", run, "--port", str(port), "--req-limit", "100000", threads=threads)
    try:
        _wait_for(port)
        texts = (FOLDER / "lines.en").read_text("utf-8").splitlines()
        requests = [json.dumps({"text": texts[number % len(texts)]}).encode() for number in range(REQUESTS)]
        _ask(port, requests[0])
        began = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda body: _ask(port, body), requests))
        return time.perf_counter() - began
    finally:
        server.terminate()
        server.wait()


def _ask(port: int, body: bytes) -> Any:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/translate", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start within a minute")


def _in_turn(name: str, job: Job, versions: list[Version], rounds: int) -> dict[str, Any]:
    """Time one job of all versions; the first round is not counted."""
    times: dict[str, dict[str, list[float]]] = {}
    for number in range(rounds + 1):
        for version in versions if number % 2 else versions[::-1] if number else versions:
            began = time.perf_counter()
            timed = job(version)
            measured = {"process": time.perf_counter() - began, "processor": timed.processor, "part": timed.part}
            for clock, seconds in measured.items():
                if seconds is not None and number:
                    times.setdefault(clock, {}).setdefault(version.name, []).append(seconds)
    medians = {
        clock: {version: statistics.median(values) for version, values in by_version.items()}
        for clock, by_version in times.items()
    }
    ratios = {
        clock: quartiles([b / a for a, b in zip(by_version["before"], by_version["after"], strict=True)])
        for clock, by_version in times.items()
    }
    for clock, ratio in ratios.items():
        spread = f"{ratio['median']:.3f} × [{ratio['low']:.3f}–{ratio['high']:.3f}]"
        seconds = "  ".join(f"{version} {median:7.2f} s" for version, median in medians[clock].items())
        print(f"{name:24} {clock:10} {seconds}  {spread}", flush=True)
    return {"job": name, "seconds": medians, "after_over_before": ratios}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="tree of the earlier version, with its kernels built")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--jobs", nargs="*", help="only jobs whose name contains one of these words")
    return parser.parse_args()


if __name__ == "__main__":
    main()
