"""Errors that a user can cause or see, as one tree.

    RegardError            1
    ├── ConfigError        2   a config key, an override, an option, an invalid combination
    ├── DataError          3   data: missing, misaligned, empty, not UTF-8, invalid input of a model
    │   └── MissingDataError   a file or a column that does not exist
    ├── ModelError         4   a run or model folder: missing, truncated, not of Regard, of a newer version
    ├── TrainingError      5   training cannot continue: no finite loss, out of memory
    └── StorageError       6   the machine refuses: disk full, no permission

The number is the exit code of the command line; Ctrl-C exits with 130, SIGTERM with 143.
"""

from __future__ import annotations


class RegardError(Exception):
    """A failure that reports what, where, why, and what to do next.

    Args:
        what: one sentence.
        where: a ``file:line`` or a config key.
        why: the reason, if ``what`` does not imply it.
        help: a remedy, preferably a command to copy.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, why: str | None = None, help: str | None = None) -> None:
        self.what, self.where, self.why, self.help = what, where, why, help
        super().__init__(str(self))

    def __str__(self) -> str:
        parts = [self.what]
        parts += [f"{label}: {text}" for label, text in self._details() if text]
        return "\n  ".join(parts)

    def _details(self) -> list[tuple[str, str | None]]:
        return [("where", self.where), ("why", self.why), ("help", self.help)]


class ConfigError(RegardError):
    """A config key, an override or an option that cannot be used."""

    exit_code = 2


class DataError(RegardError):
    """Data that cannot be parsed: a corpus, a graph, a line of input."""

    exit_code = 3


class MissingDataError(DataError):
    """A file, or a column of a table, that does not exist."""


class SourceChangedError(DataError):
    """A source that arrives in pieces, of which an earlier piece is now another one."""


class ModelError(RegardError):
    """A run or model folder that cannot be loaded."""

    exit_code = 4


class TrainingError(RegardError):
    """Training that cannot continue."""

    exit_code = 5


class StorageError(RegardError):
    """A full disk or a missing permission."""

    exit_code = 6
