"""Reader for the lint: it records defects of lines as problems and continues."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from regard.data.reading import FileCorpus, layout, parse_json_pair, parse_tab_pair, read_each_pair, refuse_pipes
from regard.data.text_files import read_raw_lines
from regard.errors import DataError, MissingDataError


class LintRow(NamedTuple):
    """Line of a corpus. A side is None if its file has ended or the line lacks it.

    ``problems``: (kind, message) of each defect in reading.
    """

    line: int
    source: str | None
    target: str | None
    problems: tuple[tuple[str, str], ...]


def read_rows(config: FileCorpus) -> Iterator[LintRow]:
    """Yield every line of ``config``, blank lines included.

    Raises only if a file cannot be read at all, or can be read only once.
    """
    refuse_pipes(config)
    if layout(config) == "two files":
        assert config.target is not None
        sides = zip_longest(read_raw_lines(config.source), read_raw_lines(config.target))
        for number, (first, second) in enumerate(sides, start=1):
            source, source_problems = _decode(first, "source")
            target, target_problems = _decode(second, "target")
            yield LintRow(number, source, target, source_problems + target_problems)
        return
    if layout(config) == "table":
        yield from _rows_of_table(config)
        return
    for number, raw in enumerate(read_raw_lines(config.source), start=1):
        line, problems = _decode(raw, "line")
        assert line is not None
        try:
            if layout(config) == "tsv":
                yield LintRow(number, *parse_tab_pair(line, where=""), problems)
            else:
                yield LintRow(number, *parse_json_pair(line, config, where=""), problems)
        except DataError as error:
            message = error.what if error.why is None else f"{error.what}: {error.why}"
            yield LintRow(number, None, None, (*problems, ("format", message)))


def _rows_of_table(config: FileCorpus) -> Iterator[LintRow]:
    """Yield the rows up to the first invalid one: after it, the bounds of rows are unknown.

    Raises:
        MissingDataError: for a missing file or column: no row can be read.
    """
    number = 1
    try:
        for number, source, target in read_each_pair(config):
            yield LintRow(number, source, target, ())
    except MissingDataError:
        raise
    except DataError as error:
        line = (error.where or "").rpartition(":")[2]
        message = f"{error.what}: {error.why}; the rest of the file was not read"
        yield LintRow(int(line) if line.isdecimal() else number, None, None, (("format", message),))


def _decode(raw: bytes | None, side: str) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """Return the text of a line, with U+FFFD for invalid bytes, and its problems; ``side`` is named in the message."""
    if raw is None:
        return None, ()
    try:
        return raw.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        message = f"the {side} is not valid UTF-8 (byte {error.start + 1} is 0x{raw[error.start]:02x})"
        return raw.decode("utf-8", errors="replace"), (("encoding", message),)
