"""Words from a pipe or a file as soon as they arrive, with the ends of lines."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from regard.commands.incoming_lines import open_incoming
from regard.errors import DataError

WORD = re.compile(r"\s*\S+\s")


class Arrival(NamedTuple):
    """The next part of a line: a word and the space after it, or the rest at the end of the line."""

    text: str
    ends_line: bool


@contextmanager
def open_words(file: Path | None, *, watched: bool) -> Iterator[Iterator[Arrival]]:
    """Yield the words of a file or of standard input, each as soon as the space after it has arrived.

    Args:
        file: the file, plain or .gz; None for standard input.
        watched: raise BrokenPipeError while waiting for a word if the reader of standard output exits.

    Raises:
        DataError: for bytes that are not UTF-8, with the line.
    """
    with open_incoming(file, watched=watched) as (read, name):
        yield arrivals(_decoded(iter(read, b""), name))


def arrivals(texts: Iterable[str]) -> Iterator[Arrival]:
    """Yield the words of texts of any sizes; a last line without its end is a line."""
    waiting, pending, held = "", False, ""
    for text in texts:
        joined = (held + text).replace("\r\n", "\n")
        held = "\r" if joined.endswith("\r") else ""  # it may belong to the end of a line
        *lines, waiting = (waiting + joined.removesuffix("\r").replace("\r", " ")).split("\n")
        for line in lines:
            yield from _words(line)
        whole = WORD.findall(waiting)
        for word in whole:
            yield Arrival(word, ends_line=False)
        waiting = waiting[sum(map(len, whole)) :]
        pending = bool(whole) or (pending and not lines)
    if waiting or pending or held:
        yield from _words(waiting)


def _words(line: str) -> Iterator[Arrival]:
    """Yield the words of the rest of a line; the last one ends it."""
    whole = WORD.findall(line)
    rest = line[sum(map(len, whole)) :]
    for word in whole:
        yield Arrival(word, ends_line=False)
    yield Arrival(rest, ends_line=True)


def _decoded(blocks: Iterable[bytes], name: str) -> Iterator[str]:
    decoder: Callable[..., str] = codecs.getincrementaldecoder("utf-8")().decode
    line, first = 1, True
    for block in _with_end(blocks):
        try:
            text = decoder(block or b"", block is None)
        except UnicodeDecodeError as error:
            raise DataError(
                "a line is not valid UTF-8",
                where=f"{name}:{line + error.object[: error.start].count(10)}",
                why=f"a byte is 0x{error.object[error.start]:02x}: {error.reason}",
                help="convert it, for example: iconv -f WINDOWS-1252 -t UTF-8",
            ) from error
        line += text.count("\n")
        yield text.removeprefix("\ufeff") if first else text
        first = first and not text


def _with_end(blocks: Iterable[bytes]) -> Iterator[bytes | None]:
    yield from blocks
    yield None
