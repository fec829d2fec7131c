"""A worker: processes the blocks of its share that no other process has done or is doing.

The program ``python -m regard.bulk.worker`` reads its order as a JSON line from standard input and writes its progress
as JSON lines to standard output. It exits when standard input ends, and so together with its parent.
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

WAIT = 0.2  # seconds until the blocks of other processes are checked again

Report = Callable[[int, int], None]  # (number of a block, number of its finished lines)


class Share(NamedTuple):
    """The blocks of a process: every ``of``-th, from the ``number``-th; 1 of 1 is all."""

    number: int = 1
    of: int = 1

    def blocks(self, job: BulkJob) -> list[Block]:
        return job.blocks[self.number - 1 :: self.of]


def parse_share(text: str) -> Share:
    """Parse ``3/64``, the third of 64 shares. Raises ConfigError for any other form."""
    number, _, of = text.partition("/")
    help = "--shard 3/64 is the third of 64; of Slurm: sbatch --array=1-64, --shard $SLURM_ARRAY_TASK_ID/64"
    if not (number.isdecimal() and of.isdecimal()):
        raise ConfigError(f"{text!r} is not a shard", where="--shard", help=help)
    if not 1 <= int(number) <= int(of):
        raise ConfigError(f"shard {text} does not exist", where="--shard", why="shards count from 1", help=help)
    return Share(int(number), int(of))


class Order(NamedTuple):
    """Everything that a process needs to join a job, as plain values."""

    out: str
    inputs: list[str]
    spec: Mapping[str, Any]  # of the work
    share: tuple[int, int] = (1, 1)
    lines: int | None = None  # of a block

    def only(self, share: Share) -> Order:
        return self._replace(share=(share.number, share.of))


def open_order(order: Order, advance: Callable[[int], None] = lambda count: None) -> BulkJob:
    """Begin the job of an order, or open it if it exists."""
    return open_job(
        Path(order.out), [Path(path) for path in order.inputs], settings_of(order.spec),
        lines=order.lines, seed=order.spec["seed"], advance=advance,
    )  # fmt: skip


def do_block(job: BulkJob, block: Block, reader: BlockReader, work: Work, report: Report) -> bool:
    """Process and publish a block. Return False if another process works on it, True once it is published."""
    path = job.block_path(block)
    try:
        with Journal.claim(job.claim_path(block)) as journal:
            if not (path.exists() or job.finished.exists()):
                result = work_on_block(
                    reader.lines(block), work, journal, name=str(job.paths[block.input]), first=block.first,
                    report=lambda done: report(block.number, done),
                )  # fmt: skip
                publish(path, job.digest, result.outputs, result.aside, distinct=result.distinct)
            journal.remove()
    except BlockingIOError:
        return False
    except StorageError:
        if not job.finished.exists():  # otherwise the job was joined meanwhile, and the folders are deleted
            raise
    report(block.number, block.lines)
    return True


def do_share(job: BulkJob, share: Share, work: Work, report: Report) -> None:
    """Process the missing blocks of a share; at the end all are published, by this process or by others."""
    missing = job.missing(share.blocks(job))
    with BlockReader(job.paths) as reader:
        while missing:
            held = [block for block in missing if not do_block(job, block, reader, work, report)]
            if len(held) == len(missing):
                time.sleep(WAIT)
            missing = job.missing(held)


def main() -> None:
    """Join the job that standard input names; errors go to standard output as a JSON line."""
    messages = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # output of libraries must not mix with messages

    def send(**message: Any) -> None:
        messages.write(json.dumps(message) + "\n")

    try:
        order = Order(**json.loads(sys.stdin.buffer.readline()))
        threading.Thread(target=_end_with_parent, daemon=True).start()
        job = open_order(order)
        work = open_work(order.spec, job.seed)
        do_share(
            job,
            Share(*order.share),
            _Announced(work, lambda: send(begun=True)),
            lambda block, done: send(block=block, done=done),
        )
    except RegardError as error:
        send(error=[type(error).__name__, error.what, error.where, error.why, error.help])
        sys.exit(error.exit_code)


class _Announced:
    """Work that announces each call: a death after an announcement still makes progress (``isolation``)."""

    def __init__(self, work: Work, announce: Callable[[], None]) -> None:
        self.numbered, self._work, self._announce = work.numbered, work, announce

    def __call__(self, lines: Sequence[str]) -> list[str]:
        self._announce()
        return self._work(lines)


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
