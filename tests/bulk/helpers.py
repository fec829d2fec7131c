"""A bulk job without a model: lines in capitals, by a work that counts, and fails or dies where it is told to."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.bulk import worker
from regard.bulk.job import BulkJob, open_job
from regard.bulk.merge import Merged, merge
from regard.bulk.worker import Share

BLOCK = 10  # lines
ALL = Share()


class Killed(BaseException):
    """What a kill does to a process, as far as files can tell."""


class Capitals:
    """``FAIL`` in a line raises, ``KILL`` ends the process, both before anything of the call is known."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, lines: Sequence[str]) -> list[str]:
        self.calls.append(list(lines))
        if any("KILL" in line for line in lines):
            raise Killed
        if any("FAIL" in line for line in lines):
            raise ValueError("it says FAIL")
        return [line.upper() for line in lines]

    def numbered(self, output: str, number: int) -> str:
        return output

    @property
    def seen(self) -> list[str]:
        """All lines that it was given."""
        return [line for call in self.calls for line in call]


def write(path: Path, count: int, seed: int = 1) -> Path:
    """A text of a few words a line."""
    draw = random.Random(seed)
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{' '.join(draw.choices('abcdefgh', k=4))} {row}\n" for row in range(count)))
    return path


def begin(folder: Path, *paths: Path, **settings: Any) -> BulkJob:
    """The job of these inputs in ``folder``/out."""
    return open_job(folder / "out", paths, {"run": "toy"} | settings, lines=BLOCK)


def work(job: BulkJob, doing: Capitals | None = None, share: Share = ALL) -> None:
    """One worker's part."""
    worker.do_share(job, share, doing or Capitals(), lambda block, done: None)


def finish(folder: Path, *paths: Path, doing: Capitals | None = None, deaths: int = 30) -> Merged:
    """The whole job, begun again after each death."""
    for _ in range(deaths):
        try:
            job = begin(folder, *paths)
            work(job, doing)
            return merge(job)
        except Killed:
            pass
    raise AssertionError("it never ends")


def set_aside(folder: Path) -> list[dict[str, Any]]:
    """The records of the lines without an output."""
    return [json.loads(line) for line in (folder / "out" / "quarantine.jsonl").read_text().splitlines()]
