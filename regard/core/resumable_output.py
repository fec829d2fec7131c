"""An output file written over several runs of a command: committed parts survive a kill, and it appears when complete.

.NAME.partial        the output so far
.NAME.partial.json   committed bytes, the number of their inputs, and the job
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
from regard.core.wording import pluralize_with_verb
from regard.errors import ConfigError

FORMAT = 1


class ResumableOutput:
    """A writer of the future file ``path``; ``inputs`` is the number of inputs of the committed part.

    ``job`` holds every setting that changes the output. With ``resume``, an unfinished output of the same job is
    continued, and one of another job raises ConfigError. Without it, the output is written from the start.
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
            atomic_files.remove_file(self._record)  # a stale record must not describe the new output
        with atomic_files.explain_os_errors(self.path):
            self._file: BinaryIO = self._partial.open("r+b" if self._bytes else "wb")
            self._file.truncate(self._bytes)
            self._file.seek(self._bytes)

    def skip_committed(self, inputs: list[str]) -> bool:
        """Return whether the committed part already holds the outputs of these next ``inputs``.

        Raises ConfigError if the inputs have changed since.
        """
        if self._passed >= self.inputs:
            return False
        self._count(inputs)
        self._passed += len(inputs)
        if self._passed >= self.inputs and self._digest.hexdigest() != self._expected:
            self._refuse_changed()
        return True

    def write(self, data: bytes) -> None:
        """Append to the uncommitted part."""
        with atomic_files.explain_os_errors(self.path):
            self._file.write(data)

    def commit(self, inputs: list[str]) -> None:
        """Commit all data written so far as the outputs of these ``inputs`` and earlier ones."""
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
        """Publish the complete output as ``path``."""
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
        """Close an unfinished output: the committed part remains for ``resume``; without one the file is removed."""
        self._file.close()
        if not self.inputs:
            atomic_files.remove_file(self._partial)

    def _count(self, inputs: list[str]) -> None:
        for text in inputs:
            self._digest.update(text.encode("utf-8", "surrogatepass") + b"\n")

    def _read(self) -> dict[str, Any] | None:
        """Read the record of the committed part; None if it is missing, or the file is shorter than recorded."""
        try:
            record: dict[str, Any] = parse_json(read_bytes(self._record, SMALL))
            if record["format"] == FORMAT and self._partial.stat().st_size >= record["bytes"]:
                return record
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def _refuse_changed(self) -> None:
        raise ConfigError(
            f"the first {pluralize_with_verb(self.inputs, 'input', 'has', 'have')} changed since the interruption",
            where=str(self._record),
            help="remove --resume to start over",
        )

    def _refuse_other(self, job: Mapping[str, Any]) -> None:
        different = sorted(key for key in {*job, *self.job} if job.get(key) != self.job.get(key))
        if different:
            raise ConfigError(
                f"the unfinished output for {self.path.name} was started with other options",
                where=str(self._record),
                why=f"it differs in {', '.join(different)}",
                help="use the same options, or remove --resume to start over",
            )
