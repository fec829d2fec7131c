"""Readers for files from unknown sources: files up to a size, JSON and TOML up to a nesting depth.

A ValueError raised here holds the reason only; the caller knows the purpose of the file and raises the final error.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

SMALL: Final = 1 << 20  # bytes of a file of settings
LARGE: Final = 1 << 28  # bytes of a vocabulary, which may be all words of a corpus
DEPTH: Final = 32  # nested tables and lists; files of Regard have at most eight levels
LINE: Final = 1 << 20  # bytes of one record
RECORDS: Final = 1 << 30  # bytes of all records that are read

# An unterminated string reaches to the end of the line or text: each character is examined once.
_TOML = re.compile(
    r'"""(?:[^\\"]++|\\.|"(?!""))*+(?:""")?+'
    r"|'''(?:[^']++|'(?!''))*+(?:''')?+"
    r'|"(?:[^"\\\n]++|\\.)*+"?+'
    r"|'[^'\n]*+'?+"
    r"|\#[^\n]*+|[\w-]++|\s++|.",
    re.DOTALL,
)

_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")  # of a surrogate pair, whole or not


class TooDeep(ValueError):
    """Raised for tables or lists that are nested deeper than in any file of Regard."""

    def __init__(self) -> None:
        super().__init__(f"tables or lists are nested more than {DEPTH} levels deep")


def read_bytes(path: Path, limit: int) -> bytes:
    """Return the bytes of a regular file. Raises ValueError above ``limit`` bytes and OSError if it cannot be read."""
    with open(path, "rb", opener=open_regular) as file:
        data = file.read(
            min(limit, os.fstat(file.fileno()).st_size) + 1
        )  # ``read`` allocates memory for its whole argument
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return data


def read_records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number, from 1, and the bytes of each line of a regular file, line end included.

    Lines of more than a megabyte are skipped; reading stops after the first gigabyte. Raises OSError as ``read_bytes``
    does.
    """
    with open(path, "rb", opener=open_regular) as file:
        number, left = 0, RECORDS
        while left > 0 and (line := file.readline(LINE)):
            number, left, whole = number + 1, left - len(line), True
            while len(line) == LINE and not line.endswith(b"\n") and left > 0:
                line, whole = file.readline(LINE), False
                left -= len(line)
            if whole:
                yield number, line


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError if it is malformed or contains invalid text, TooDeep if nested too deep."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise TooDeep from None
    require_shallow(value)
    if _HALF.search(text if isinstance(text, str) else text.decode("utf-8", "replace")):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("it contains half of a surrogate pair, which is not valid text") from error
    return value


def json_value(line: str) -> Any | None:
    """Return the JSON list or object of a line; None for any other line, which is a text.

    A text may begin with a bracket: ``[1] Ada lives in Rome`` is not JSON.
    """
    if not line.lstrip().startswith(("[", "{")):
        return None
    try:
        return parse_json(line)
    except ValueError:
        return None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises TOMLDecodeError or another ValueError if it is malformed, TooDeep if it is nested too deep.

    A key of many parts is rejected before parsing: the time and memory of ``tomllib`` grow with the square of their
    number.
    """
    depth, joined = 0, False
    for token in _TOML.finditer(text):
        first = token[0][0]
        if first == ".":
            joined = True
        elif first in "\"'-_" or first.isalnum():
            depth, joined = (depth + 1 if joined else 1), False
        elif not token[0].isspace():
            depth, joined = 0, False
        if depth > DEPTH:
            raise TooDeep
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise TooDeep from None
    require_shallow(tables)
    return tables


def require_shallow(value: Any) -> None:
    """Raise TooDeep if containers are nested more than ``DEPTH`` deep, to let later code recurse."""
    level = [value]
    for _ in range(DEPTH + 1):
        containers = [value for value in level if isinstance(value, dict | list)]
        if not containers:
            return
        level = [
            inner
            for container in containers
            for inner in (container.values() if isinstance(container, dict) else container)
        ]
    raise TooDeep


class FileVersion(NamedTuple):
    """The current version of a file: a key of caches, which must not outlive a change of the file."""

    path: Path
    size: int  # −1 for a missing file, like the next fields
    modified: int  # nanoseconds
    inode: int  # distinguishes files of equal size and time, as after a copy

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the current version of a file, which may be missing."""
        try:
            status = path.stat()
        except OSError:
            return cls(path, -1, -1, -1)
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ino)


def shortened(text: str, limit: int = 200) -> str:
    """Return the text, or its beginning and "…" if it has more than ``limit`` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def open_regular(path: str, flags: int) -> int:
    """Open a regular file without blocking, as a pipe would. Raises OSError for any other file."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", path)
