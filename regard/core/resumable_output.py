"""A long output written over several sittings: what is committed outlives a kill, and it is there once it is whole.

.NAME.partial        what is written so far
.NAME.partial.json   how much of it is committed, of how many inputs, and what work it belongs to
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from regard.core import atomic_files
from regard.core.untrusted_files import SMALL, parse_json, read_bytes
from regard.errors import ConfigError

__all__ = ["ResumableOutput"]

FORMAT = 1


class ResumableOutput:
    """Appends to what will be ``path``; ``inputs`` is how many inputs the committed part stands for.

    ``job`` says what work it is: whatever changes the output. With ``resume`` an unfinished output of the same job is
    gone on with, else it begins anew. ConfigError where the unfinished one is of another job.
    """

    def __init__(self, path: Path, job: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path.resolve()
        self.job = json.loads(json.dumps(job))
        self._partial = atomic_files.hidden_sibling(self.path, "partial")
        self._record = atomic_files.hidden_sibling(self.path, "partial.json")
        self.inputs, self._passed, self._bytes, self._expected = 0, 0, 0, ""
        self._digest = hashlib.sha256()
        if resume and (record := self._read()) is not None:
            self._refuse_other(record["job"])
            self.inputs, self._bytes, self._expected = record["inputs"], record["bytes"], record["digest"]
        if not self._bytes:
            atomic_files.remove_file(self._record)  # of an earlier beginning: it must not vouch for what is written now
        with atomic_files.explain_os_errors(self.path):
            self._file: BinaryIO = self._partial.open("r+b" if self._bytes else "wb")
            self._file.truncate(self._bytes)
            self._file.seek(self._bytes)

    def skip_committed(self, inputs: list[str]) -> bool:
        """Whether the committed part stands for these next ``inputs``; ConfigError where they have changed since."""
        if self._passed >= self.inputs:
            return False
        self._count(inputs)
        self._passed += len(inputs)
        if self._passed >= self.inputs and self._digest.hexdigest() != self._expected:
            self._refuse_changed()
        return True

    def write(self, data: bytes) -> None:
        with atomic_files.explain_os_errors(self.path):
            self._file.write(data)

    def commit(self, inputs: list[str]) -> None:
        """What is written so far stands for these ``inputs``, too."""
        self._count(inputs)
        with atomic_files.explain_os_errors(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            atomic_files.fault_point("partial-synced")
            self.inputs, self._bytes = self.inputs + len(inputs), self._file.tell()
        self._passed = self.inputs
        record = {"format": FORMAT, "inputs": self.inputs, "bytes": self._bytes, "job": self.job}
        atomic_files.write_json(self._record, record | {"digest": self._digest.hexdigest()})

    def finish(self) -> None:
        """The output is whole: it takes its place."""
        if self._passed < self.inputs:
            self._refuse_changed()
        with atomic_files.explain_os_errors(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._partial, self.path)
            atomic_files.fault_point("renamed")
        atomic_files.remove_file(self._record)

    def close(self) -> None:
        """Leave it unfinished: what is committed stays; where nothing is, nothing does."""
        self._file.close()
        if not self.inputs:
            atomic_files.remove_file(self._partial)

    def _count(self, inputs: list[str]) -> None:
        for text in inputs:
            self._digest.update(text.encode("utf-8", "surrogatepass") + b"\n")

    def _read(self) -> dict[str, Any] | None:
        """The record of what is committed; None where there is none, or less is there than it says."""
        try:
            record: dict[str, Any] = parse_json(read_bytes(self._record, SMALL))
            if record["format"] == FORMAT and self._partial.stat().st_size >= record["bytes"]:
                return record
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def _refuse_changed(self) -> None:
        raise ConfigError(
            f"the first {self.inputs:,} inputs are no longer those of before",
            where=str(self._record),
            help="leave out --resume to begin anew",
        )

    def _refuse_other(self, job: Mapping[str, Any]) -> None:
        different = sorted(key for key in {*job, *self.job} if job.get(key) != self.job.get(key))
        if different:
            raise ConfigError(
                f"what is unfinished at {self.path.name} was begun otherwise",
                where=str(self._record),
                why=f"it differs in {', '.join(different)}",
                help="give the options of before, or leave out --resume to begin anew",
            )
