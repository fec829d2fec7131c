"""Files and texts that somebody else may have written: read up to a size, and JSON and TOML up to a depth.

Every reader tells its user what the file is for. So a ValueError here holds the reason alone, and the reader makes its
own error of it.
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
from typing import Any, Final

__all__ = [
    "LARGE",
    "SMALL",
    "TooDeep",
    "parse_json",
    "parse_toml",
    "read_bytes",
    "read_records",
    "require_shallow",
    "shortened",
]

SMALL: Final = 1 << 20  # bytes of a file of settings
LARGE: Final = 1 << 28  # bytes of a vocabulary, which may be all words of a corpus
DEPTH: Final = 32  # tables and lists inside each other; what Regard writes has eight at most
LINE: Final = 1 << 20  # bytes of one record
RECORDS: Final = 1 << 30  # bytes of all records that are read

# A string that never ends reaches to the end of its line, or of the text: each character is looked at once.
_TOML = re.compile(
    r'"""(?:[^\\"]++|\\.|"(?!""))*+(?:""")?+'
    r"|'''(?:[^']++|'(?!''))*+(?:''')?+"
    r'|"(?:[^"\\\n]++|\\.)*+"?+'
    r"|'[^'\n]*+'?+"
    r"|\#[^\n]*+|[\w-]++|\s++|.",
    re.DOTALL,
)


class TooDeep(ValueError):
    """Tables or lists are nested deeper than anything that Regard reads."""

    def __init__(self) -> None:
        super().__init__(f"tables or lists are nested more than {DEPTH} deep")


def read_bytes(path: Path, limit: int) -> bytes:
    """The bytes of a regular file. ValueError where it has more than ``limit``, OSError where it cannot be read."""
    with open(path, "rb", opener=open_regular) as file:
        found = file.read(limit + 1)
    if len(found) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return found


def read_records(path: Path) -> Iterator[tuple[int, bytes]]:
    """The number from 1 and the bytes of each line of a regular file, its end included.

    Lines of more than a megabyte are left out; nothing is read beyond the first gigabyte. OSError as ``read_bytes``.
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
    """What JSON says. ValueError where it is none, and TooDeep."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise TooDeep from None
    require_shallow(found)
    return found


def parse_toml(text: str) -> dict[str, Any]:
    """What TOML says. TOMLDecodeError or another ValueError where it is none, and TooDeep.

    A key of many parts is refused before it is parsed: ``tomllib`` takes time and memory that grow with the square of
    their number.
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
        found = tomllib.loads(text)
    except RecursionError:
        raise TooDeep from None
    require_shallow(found)
    return found


def require_shallow(value: Any) -> None:
    """TooDeep where containers are nested more than ``DEPTH`` deep; what walks them later may then recur."""
    level = [value]
    for _ in range(DEPTH + 1):
        containers = [each for each in level if isinstance(each, dict | list)]
        if not containers:
            return
        level = [inner for each in containers for inner in (each.values() if isinstance(each, dict) else each)]
    raise TooDeep


def shortened(text: str) -> str:
    """At most 200 characters of a text for a message to quote."""
    return text if len(text) <= 200 else f"{text[:199]}…"


def open_regular(path: str, flags: int) -> int:
    """Open without waiting, which a pipe would make one do; OSError for whatever is no regular file."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", path)
