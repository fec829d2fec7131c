"""Execution of a comparison: members are trained and measured one at a time, each in its own processes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from regard.comparison.members import Budget, Entry
    from regard.comparison.results import Summary
    from regard.core.interrupt import Interrupts

START = """
try:
    from regard.core.standard_streams import guard_streams
    guard_streams()
    from regard.commands.compare import run_member
    run_member()
except KeyboardInterrupt:  # while it still imports
    raise SystemExit(130)
"""
PATIENCE = 20.0  # seconds to wait for a member of a killed comparison to save and end


class Comparison:
    """A comparison in a folder; running the same command again continues it."""

    def __init__(
        self, folder: Path, entries: list[Entry], seeds: int, budget: Budget | None, key: dict[str, Any]
    ) -> None:
        """Plan the members.

        Args:
            folder: the folder for run folders and results.
            entries: the rows of the table with their configs.
            seeds: number of runs for each row.
            budget: training budget of each run; None if the configs define it.
            key: the conditions of measurement: ``metric``, ``beam``, ``average`` and ``test``.
        """
        self.folder, self.budget, self.key, self.seeds = folder, budget, key, seeds
        self.members = [_Member(folder, entry, number, key) for entry in entries for number in range(seeds)]
        self.names = [entry.row.name for entry in entries]

    def run(self) -> int:
        """Train and measure all unfinished members; return 0, the first failure's exit code, 130 or 143."""
        from regard.core import atomic_files
        from regard.core.interrupt import Interrupts
        from regard.errors import ModelError

        with atomic_files.explain_os_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        lock = self.folder / "lock"
        try:
            with atomic_files.locked(lock, patience=PATIENCE) as lock_file, Interrupts() as interrupts:
                interrupts.polite = True
                self._run(lock_file, interrupts)
        except BlockingIOError as error:
            raise ModelError(
                "another process is comparing in this folder",
                where=str(lock),
                help="wait for it, or name another --out",
            ) from error
        if interrupts.received is not None:
            return interrupts.exit_code
        failures = [member.error["exit_code"] for member in self.members if member.error is not None]
        return int(failures[0]) if failures else 0

    def _run(self, lock_file: int, interrupts: Interrupts) -> None:
        for member in self.members:
            member.begin()
        for failed in {member.row: member for member in self.members if member.config is None}.values():
            failed.print_failure()  # once per row, as it does not depend on the seed
        began, waiting = time.monotonic(), [member for member in self.members if member.state == "waiting"]
        self._save_results()
        for number, member in enumerate(waiting):
            left = self._left(number, len(waiting), time.monotonic() - began)
            _print(f"[{len(self.members) - len(waiting) + number + 1}/{len(self.members)}] {member.title}{left}")
            member.work(lock_file, interrupts)
            self._save_results()
            if interrupts.received is not None:
                _print("stopped; run the same command again to continue")
                return

    def _left(self, done: int, count: int, seconds: float) -> str:
        """Return the estimated remaining time, from finished members or a time budget; "" without either."""
        if done:
            return f" · about {_duration(seconds / done * (count - done))} left"
        if self.budget is not None and self.budget.minutes is not None:
            return f" · at least {_duration(self.budget.minutes * 60 * count)} left"
        return ""

    def _save_results(self) -> None:
        from regard.comparison.results import markdown
        from regard.core import atomic_files

        atomic_files.write_json(self.folder / "results.json", self.results())
        text = markdown(self.results(), self.summaries())
        atomic_files.write_bytes_atomically(self.folder / "results.md", text.encode())

    def results(self) -> dict[str, Any]:
        """Return the contents of ``results.json``."""
        from regard.runs.run_folder import environment

        signatures = [member.measured["signature"] for member in self.members if member.state == "done"]
        return {
            "format": 1,
            "command": shlex.join(["regard", *sys.argv[1:]]),
            "budget": self.budget.text if self.budget else None,
            "seeds": self.seeds,
            "metric": self.key["metric"],
            "signatures": list(dict.fromkeys(signatures)),
            "test": ", ".join(Path(part["corpus"]["source"]).name for part in self.key["test"]),
            "measured": self.key,
            "environment": environment(),
            "rows": [
                {
                    "name": row.name,
                    "mean": row.mean,
                    "spread": row.spread,
                    "members": [member.as_json() for member in self.members if member.row == row.name],
                }
                for row in self.summaries()
            ],
        }

    def summaries(self) -> list[Summary]:
        """Summarize each row over its seeds."""
        from regard.comparison.results import summarize

        by_row = {name: [member.as_json() for member in self.members if member.row == name] for name in self.names}
        return [summarize(name, members) for name, members in by_row.items()]


class _Member:
    """A row trained with one seed, in its own run folder."""

    def __init__(self, folder: Path, entry: Entry, number: int, key: dict[str, Any]) -> None:
        from regard.comparison.member import error_as_json

        config = entry.config
        self.row, self.key = entry.row.name, key
        self.seed = number + 1 if config is None else config.seed + number
        self.config = None if config is None else config.model_copy(update={"seed": self.seed})
        self.path = folder / entry.row.folder / f"seed-{self.seed}"
        self.error = None if entry.error is None else error_as_json(entry.error)
        self.measured: dict[str, Any] = {}
        self.training: dict[str, Any] = {}
        self.title = f"{self.row}, seed {self.seed}"

    @property
    def state(self) -> str:
        return "failed" if self.error is not None else "done" if self.measured else "waiting"

    def as_json(self) -> dict[str, Any]:
        """Return the member's part of ``results.json``."""
        known = {"seed": self.seed, "run": str(self.path), "state": self.state, "error": self.error}
        return {**known, **self.training, **{key: value for key, value in self.measured.items() if key != "key"}}

    def begin(self) -> None:
        """Create the run folder, or load its progress; raises ConfigError if it has another config."""
        from regard.core import atomic_files
        from regard.errors import ConfigError
        from regard.runs.run_folder import RunFolder

        if self.config is None:
            return
        if not (self.path / "config.toml").exists():
            if self.path.exists():
                atomic_files.sweep(self.path)  # may remain from a process killed during creation
            RunFolder.create(self.path, self.config)
        elif RunFolder.open(self.path).config != self.config:
            raise ConfigError(
                f"{self.path} has another config or budget",
                where=str(self.path / "config.toml"),
                help="name another --out, or remove this folder to train again",
            )
        else:
            self._read()

    def work(self, lock_file: int, interrupts: Interrupts) -> None:
        """Prepare, train and measure the member as far as necessary; a failure is printed and saved."""
        prepared = (self.path / "plan.json").exists()
        for stage in ("train",) if prepared else ("prepare", "train"):
            if interrupts.received is not None:
                return
            job = {"stage": stage, "run": str(self.path), "key": self.key}
            code = _wait(job, lock_file, interrupts)
            if code and interrupts.received is not None:
                return
            if code:
                self._fail(code)
                return
        self._read()

    def _read(self) -> None:
        from regard.comparison.member import MEASURED, TRAINING

        training, measured = (read_json_object(self.path / name) for name in (TRAINING, MEASURED))
        self.training = training if training.get("finished") else {}
        self.measured = measured if self.training and measured.get("key") == self.key else {}

    def _fail(self, code: int) -> None:
        from regard.comparison.member import FAILURE

        killed = {"what": f"its process exited with status {code}", "where": str(self.path), "why": None, "help": None}
        if code == -9:
            killed |= {"why": "it was killed, possibly for memory", "help": "lower train.batch_tokens"}
        self.error = read_json_object(self.path / FAILURE) or {**killed, "exit_code": 5}
        self.print_failure()

    def print_failure(self) -> None:
        """Print the failure to standard error; the table has a short form."""
        error = self.error or {}
        details = [f"{label}: {error[label]}" for label in ("where", "why", "help") if error.get(label)]
        name = self.title if self.config else self.row
        _print("\n  ".join([f"{name} failed: {error['what']}", *details]))


def read_json_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in a member's file; {} without a file; raises ModelError for a damaged one."""
    from regard.core.untrusted_files import LARGE, parse_json, read_bytes
    from regard.errors import ModelError

    if not path.exists():
        return {}
    try:
        content = parse_json(read_bytes(path, LARGE))
        if not isinstance(content, dict):
            raise ValueError("it is not a JSON object")
        return content
    except (OSError, ValueError) as error:
        help = "remove it, and the member is measured again"
        raise ModelError(f"{path.name} is damaged", where=str(path), why=str(error), help=help) from error


def _wait(job: dict[str, Any], lock_file: int, interrupts: Interrupts) -> int:
    """Run a job in a child process and return its exit code. Signals are forwarded, so the child saves and exits."""
    with _child(job, lock_file) as child:
        forwarded = False
        while True:
            try:
                return child.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                if interrupts.received is not None and not forwarded:
                    forwarded = True
                    child.send_signal(interrupts.received)


@contextmanager
def _child(job: dict[str, Any], lock_file: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a child process that holds the comparison's lock, and exits when this process closes its standard input.

    It has its own process group, so Ctrl-C in the terminal reaches it only once, through this process. Its standard
    output goes to standard error.
    """
    package_parent = str(Path(__file__).parents[2])
    paths = [package_parent, os.environ.get("PYTHONPATH", "")]
    with subprocess.Popen(
        [sys.executable, "-P", "-c", START, json.dumps(job)],
        stdin=subprocess.PIPE,
        stdout=2,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        pass_fds=[lock_file],
        process_group=0,
    ) as child:
        yield child


def _print(message: str) -> None:
    typer.echo(message, err=True)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes >= 90:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min" if seconds >= 90 else f"{seconds:.0f} s"
