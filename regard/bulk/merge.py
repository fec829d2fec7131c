"""The end of a job: verify the outputs of all blocks, and join them in order, one file for each input."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from uuid import uuid4

from regard.bulk.block_file import read
from regard.bulk.job import PATIENCE, QUARANTINE, BulkJob
from regard.bulk.scan import Block
from regard.core import atomic_files
from regard.core.wording import pluralize
from regard.errors import DataError

NAMED = 5  # limit of missing blocks and failed lines in messages


class Merged(NamedTuple):
    """The counts of a joined job; ``quarantined``: places and reasons of the first lines without an output."""

    lines: int
    distinct: int
    quarantined: int
    named: list[str]


def merge(job: BulkJob) -> Merged:
    """Join the outputs, unless that is done already.

    Each file of the output folder appears complete; blocks are deleted after the last one.

    Raises:
        DataError: blocks are missing or damaged.
    """
    with atomic_files.locked(job.out / ".bulk" / "lock", patience=PATIENCE):
        if not job.finished.exists():
            _require_all(job)
            _join(job)
        try:
            record = json.loads(job.finished.read_bytes())
            merged = Merged(record["lines"], record["distinct"], record["quarantined"], record["named"])
            sizes = {entry["name"]: entry["bytes"] for entry in record["outputs"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError("the record of this job is damaged", where=str(job.finished), why=str(error)) from error
        for name, size in sizes.items():
            path = job.out / name
            if not path.is_file() or path.stat().st_size != size:
                help = f"rm -r {job.finished.parent}, then run the same command again"
                raise DataError("an output differs from the one that this job wrote", where=str(path), help=help)
        for folder in ("blocks", "claims"):
            shutil.rmtree(job.finished.with_name(folder), ignore_errors=True)
        return merged


def _require_all(job: BulkJob) -> None:
    if missing := job.missing(job.blocks):
        numbers = ", ".join(str(block.number + 1) for block in missing[:NAMED])
        more = ", …" if len(missing) > NAMED else ""
        lines = sum(block.lines for block in missing)
        raise DataError(
            f"{len(missing):,} of {pluralize(len(job.blocks), 'block')} are missing, with {pluralize(lines, 'line')}",
            where=str(job.out),
            why=f"missing: blocks {numbers}{more}; block k belongs to shard ((k − 1) mod N) + 1 of N",
            help="run the same command without --merge, or with --shard I/N for one shard",
        )


def _join(job: BulkJob) -> None:
    """Write the output of each input, the quarantined lines, and the record of the job, in this order."""
    workshop = job.out / ".bulk" / f".{uuid4().hex[:12]}.tmp"
    try:
        with atomic_files.explain_os_errors(job.out):
            workshop.mkdir()
            with (workshop / QUARANTINE).open("wb") as file:
                joined = _Joined(job, file)
                outputs = [joined.write(number, workshop / name) for number, name in enumerate(job.names)]
                file.flush()
                os.fsync(file.fileno())
            if joined.quarantined:
                os.replace(workshop / QUARANTINE, job.out / QUARANTINE)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
    record = {
        "job": job.digest, "lines": sum(block.lines for block in job.blocks), "distinct": joined.distinct,
        "quarantined": joined.quarantined, "named": joined.named, "outputs": outputs,
    }  # fmt: skip
    atomic_files.write_json(job.finished, record)


class _Joined:
    """Joins outputs, and sums the counts of their blocks."""

    def __init__(self, job: BulkJob, aside: BinaryIO) -> None:
        self.job, self._aside = job, aside
        self._blocks: list[list[Block]] = [[] for _ in job.names]
        for block in job.blocks:
            self._blocks[block.input].append(block)
        self.distinct, self.quarantined = 0, 0
        self.named: list[str] = []

    def write(self, number: int, path: Path) -> dict[str, Any]:
        """Join the outputs of an input and publish them; return name, lines, size and sha256."""
        digest, size, lines = hashlib.sha256(), 0, 0
        with path.open("wb") as file:
            for block in self._blocks[number]:
                about, data = read(self.job.block_path(block), self.job.digest, block.lines)
                file.write(data)
                digest.update(data)
                size, lines = size + len(data), lines + block.lines
                self._count(str(self.job.paths[number]), about)
            file.flush()
            os.fsync(file.fileno())
        name = self.job.names[number]
        os.replace(path, self.job.out / name)
        return {"name": name, "lines": lines, "bytes": size, "sha256": digest.hexdigest()}

    def _count(self, path: str, about: Mapping[str, Any]) -> None:
        self.distinct += about["distinct"]
        for entry in about["quarantined"]:
            row = json.dumps({"file": path} | entry, ensure_ascii=False)
            self._aside.write(row.encode("utf-8", "backslashreplace") + b"\n")
            self.quarantined += 1
            if len(self.named) < NAMED:
                self.named.append(f"{path}:{entry['line']}: {entry['why']}")
