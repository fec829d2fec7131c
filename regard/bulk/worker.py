"""A worker: does block after block of its share that nobody else has done or is doing.

As a program, ``python -m regard.bulk.worker``, it reads what to do as a line of JSON from standard input, writes what
it has done as lines of JSON to standard output, and ends when its standard input does: with whoever started it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.bulk.block_file import publish
from regard.bulk.isolation import work_on_block
from regard.bulk.job import BulkJob, open_job
from regard.bulk.journal import Journal
from regard.bulk.scan import Block, BlockReader
from regard.bulk.work import Work, open_work, settings_of
from regard.errors import ConfigError, RegardError, StorageError

WAIT = 0.2  # seconds until blocks that others work on are looked at again

Report = Callable[[int, int], None]  # told a block's number and how many of its lines are done, now and then


class Share(NamedTuple):
    """Blocks that a process may do: every ``of``-th, from the ``number``-th on; 1 of 1 is all."""

    number: int = 1
    of: int = 1

    def blocks(self, job: BulkJob) -> list[Block]:
        return job.blocks[self.number - 1 :: self.of]


def parse_share(text: str) -> Share:
    """The share that ``3/64`` is: the third of 64. ConfigError for what is none."""
    number, _, of = text.partition("/")
    help = "--shard 3/64 is the third of 64; of Slurm: sbatch --array=1-64, --shard $SLURM_ARRAY_TASK_ID/64"
    if not (number.isdecimal() and of.isdecimal()):
        raise ConfigError(f"{text!r} is no shard", where="--shard", help=help)
    if not 1 <= int(number) <= int(of):
        raise ConfigError(f"there is no shard {text}", where="--shard", why="shards count from 1", help=help)
    return Share(int(number), int(of))


class Order(NamedTuple):
    """All that a process needs to take part in a job, as plain values: the job's command on this machine."""

    out: str
    inputs: list[str]
    spec: Mapping[str, Any]  # of the work
    share: tuple[int, int] = (1, 1)
    lines: int | None = None  # of a block

    def only(self, share: Share) -> Order:
        return self._replace(share=(share.number, share.of))


def open_order(order: Order, advance: Callable[[int], None] = lambda count: None) -> BulkJob:
    """The job of an order, begun here or before."""
    return open_job(
        Path(order.out), [Path(path) for path in order.inputs], settings_of(order.spec),
        lines=order.lines, seed=order.spec["seed"], advance=advance,
    )  # fmt: skip


def do_block(job: BulkJob, block: Block, reader: BlockReader, work: Work, report: Report) -> bool:
    """Do and publish a block. False where another process is at it; True once its outputs are there."""
    path = job.block_path(block)
    try:
        with Journal.claim(job.claim_path(block)) as journal:
            if not (path.exists() or job.finished.exists()):
                found = work_on_block(
                    reader.lines(block), work, journal, name=str(job.paths[block.input]), first=block.first,
                    report=lambda done: report(block.number, done),
                )  # fmt: skip
                publish(path, job.digest, found.outputs, found.aside, distinct=found.distinct)
            journal.remove()
    except BlockingIOError:
        return False
    except StorageError:
        if not job.finished.exists():  # else it has been joined meanwhile, and the folders are gone
            raise
    report(block.number, block.lines)
    return True


def do_share(job: BulkJob, share: Share, work: Work, report: Report) -> None:
    """Do what is missing of a share; at its end all of its blocks are published, by this process or by others."""
    missing = job.missing(share.blocks(job))
    with BlockReader(job.paths) as reader:
        while missing:
            held = [block for block in missing if not do_block(job, block, reader, work, report)]
            if len(held) == len(missing):
                time.sleep(WAIT)
            missing = job.missing(held)


def main() -> None:
    """Take part in the job that standard input names; its errors go to standard output, as one line of JSON."""
    told = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is no message

    def tell(**message: Any) -> None:
        told.write(json.dumps(message) + "\n")

    try:
        order = Order(**json.loads(sys.stdin.buffer.readline()))
        threading.Thread(target=_end_with_parent, daemon=True).start()
        job = open_order(order)
        work = open_work(order.spec, job.seed)
        do_share(
            job,
            Share(*order.share),
            _Told(work, lambda: tell(begun=True)),
            lambda block, done: tell(block=block, done=done),
        )
    except RegardError as error:
        tell(error=[type(error).__name__, error.what, error.where, error.why, error.help])
        sys.exit(error.exit_code)


class _Told:
    """A work that tells of each call before it begins: a death after that has brought the job on (``isolation``)."""

    def __init__(self, work: Work, begun: Callable[[], None]) -> None:
        self.numbered, self._work, self._begun = work.numbered, work, begun

    def __call__(self, lines: Sequence[str]) -> list[str]:
        self._begun()
        return self._work(lines)


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
