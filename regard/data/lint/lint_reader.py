"""Reading for the lint: whatever is wrong with a line becomes a remark on it, and reading goes on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from regard.data.reading import CorpusConfig, layout, parse_json_pair, parse_tab_pair, read_raw_lines, refuse_pipes
from regard.errors import DataError

__all__ = ["LintRow", "read_rows"]


class LintRow(NamedTuple):
    """One line of a corpus. A side is None where its file has ended or the line has no such side.

    ``remarks`` are (kind, message) of what was wrong already in reading.
    """

    line: int
    source: str | None
    target: str | None
    remarks: tuple[tuple[str, str], ...]


def read_rows(config: CorpusConfig) -> Iterator[LintRow]:
    """Every line of ``config``, blank ones too. Raises only where a file cannot be read at all, or only once."""
    refuse_pipes(config)
    if layout(config) == "two files":
        assert config.target is not None
        sides = zip_longest(read_raw_lines(config.source), read_raw_lines(config.target))
        for number, (first, second) in enumerate(sides, start=1):
            source, source_remarks = _decode(first, "source")
            target, target_remarks = _decode(second, "target")
            yield LintRow(number, source, target, source_remarks + target_remarks)
        return
    for number, raw in enumerate(read_raw_lines(config.source), start=1):
        line, remarks = _decode(raw, "line")
        assert line is not None
        try:
            if layout(config) == "tsv":
                yield LintRow(number, *parse_tab_pair(line, where=""), remarks)
            else:
                yield LintRow(number, *parse_json_pair(line, config, where=""), remarks)
        except DataError as error:
            message = error.what if error.why is None else f"{error.what.removesuffix('.')}: {error.why}"
            yield LintRow(number, None, None, (*remarks, ("format", message)))


def _decode(raw: bytes | None, side: str) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    if raw is None:
        return None, ()
    try:
        return raw.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        message = f"the {side} is not valid UTF-8 (byte {error.start + 1} is 0x{raw[error.start]:02x})"
        return raw.decode("utf-8", errors="replace"), (("encoding", message),)
