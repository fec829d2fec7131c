"""Contents of a run's data: a run continues with the examples that it started with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from regard.core.atomic_files import fault_point
from regard.errors import DataError


def contents_changed(what: str, *, where: str, why: str) -> DataError:
    """Return the error for data that differ from those of the first preparation."""
    return DataError(
        f"the {what} changed since this run started",
        where=where,
        why=why,
        help="restore the files to continue, or start another run",
    )


def require_unchanged(what: str, digest: str, known: str, *, where: str) -> None:
    """Raise DataError if the digest of data differs from ``known``, which is empty before a run's first step."""
    if known and digest != known:
        raise contents_changed(what, where=where, why="a run uses the same examples, in the same order, until it ends")


class PreparedParts:
    """The parts of a run's data that a task prepared in memory.

    Attributes:
        contents: the digest of each part, as ``core.task.Data.contents`` takes it.
    """

    def __init__(self, known: Mapping[str, str] | None, log: Callable[[str], None]) -> None:
        """Compare with ``known``, the contents of the first preparation (``RunFiles.contents``)."""
        self.contents: dict[str, str] = {}
        self._known, self._log = known or {}, log

    def add(self, name: str, digest: str, report: str, *, what: str, where: str) -> None:
        """Record a part and report it.

        Args:
            name: ``train`` or ``valid``.
            digest: of all contents of the part.
            report: the progress line for the user.
            what: the examples, as a plural noun.
            where: the file, for messages.

        Raises:
            DataError: the part differs from the one that the run started with.
        """
        require_unchanged(what, digest, self._known.get(name, ""), where=where)
        self.contents[name] = digest
        self._log(report)
        fault_point("corpus")
