"""Places of the members of a zip archive without compression, as torch writes it.

Everything that a header states is compared with the file. Compression, encryption, equal names, paths outside the
archive and overlapping members are refused, so no member takes more memory than its bytes in the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import IO, NamedTuple

END, END64, LOCATOR = b"PK\5\6", b"PK\6\6", b"PK\6\7"
CENTRAL, LOCAL = struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s5H3L2H")
MAX_MEMBERS, MAX_DIRECTORY = 100_000, 1 << 24  # members, and bytes of their headers
COMMENT = 1 << 16
WIDE = 0xFFFFFFFF  # a number that is stored in a field of 64 bits instead


class Member(NamedTuple):
    """Bytes of a member: where they start in the file, and their number."""

    start: int
    size: int


def read_members(file: IO[bytes]) -> dict[str, Member]:
    """Return the members of an archive by name. ValueError if the file is not such an archive."""
    size = file.seek(0, 2)
    first, count, length = _directory(file, size)
    members: dict[str, Member] = {}
    spans = []
    for name, offset, bytes_stored in _entries(_read(file, first, length), count):
        if name in members:
            raise ValueError(f"it has two members {name[:100]!r}")
        if offset > size:  # a far larger one cannot be sought
            raise ValueError(f"the member {name[:100]!r} starts after the end of the file")
        start = _start(file, name, offset)
        if start + bytes_stored > first:
            raise ValueError(f"the member {name[:100]!r} is longer than the file")
        members[name] = Member(start, bytes_stored)
        spans.append((offset, start + bytes_stored))
    spans.sort()
    if any(before[1] > after[0] for before, after in pairwise(spans)):
        raise ValueError("its members overlap")
    return members


def _directory(file: IO[bytes], size: int) -> tuple[int, int, int]:
    """Return the offset of the headers of all members, the number of members, and the bytes of the headers."""
    tail_start = max(0, size - COMMENT - 22)
    tail = _read(file, tail_start, size - tail_start)
    place = tail.rfind(END)
    if place < 0 or len(tail) < place + 22:
        raise ValueError("it is truncated or not a zip archive")
    count, length, first = struct.unpack("<H2L", tail[place + 10 : place + 20])
    end = tail_start + place
    if tail[max(0, place - 20) : place][:4] == LOCATOR:
        (record,) = struct.unpack("<Q", tail[place - 12 : place - 4])
        header = _read(file, record, 56) if record + 56 <= size else b""
        if header[:4] != END64:
            raise ValueError("its directory is damaged")
        count, length, first = struct.unpack("<3Q", header[32:56])
        end = record
    if count > MAX_MEMBERS or length > MAX_DIRECTORY or first + length > end:
        raise ValueError("its directory states more members than the file has")
    return first, count, length


def _entries(directory: bytes, count: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, offset and size of each member."""
    place = 0
    for _ in range(count):
        if len(directory) < place + CENTRAL.size:
            raise ValueError("its directory is truncated")
        fields = CENTRAL.unpack_from(directory, place)
        signature, flags, method = fields[0], fields[3], fields[4]
        packed, size, name_size, extra_size, comment_size = fields[8:13]
        offset = fields[16]
        place += CENTRAL.size
        name = directory[place : place + name_size].decode("utf-8")
        extra = directory[place + name_size : place + name_size + extra_size]
        place += name_size + extra_size + comment_size
        if signature != b"PK\1\2":
            raise ValueError("its directory is damaged")
        size, packed, offset = _wide(extra, size, packed, offset)
        if flags & 1 or method or packed != size:
            raise ValueError(f"the member {name[:100]!r} is compressed or encrypted")
        if name.startswith("/") or "\\" in name or ":" in name or ".." in name.split("/"):
            raise ValueError(f"the member {name[:100]!r} has a path outside the archive")
        yield name, offset, size


def _wide(extra: bytes, *numbers: int) -> list[int]:
    """Return the numbers, each replaced by one of 64 bits if its field of 32 bits is full."""
    stored = b""
    place = 0
    while place + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, place)
        if kind == 1:
            stored = extra[place + 4 : place + 4 + size]
        place += 4 + size
    result = []
    for number in numbers:
        if number == WIDE:
            if len(stored) < 8:
                raise ValueError("a size of its directory is missing")
            number, stored = struct.unpack("<Q", stored[:8])[0], stored[8:]
        result.append(number)
    return result


def _start(file: IO[bytes], name: str, offset: int) -> int:
    """Return the offset of the bytes of a member, after its own header, whose name must be the same."""
    header = _read(file, offset, LOCAL.size)
    if len(header) < LOCAL.size or header[:4] != b"PK\3\4":
        raise ValueError(f"the header of {name[:100]!r} is damaged")
    name_size, extra_size = LOCAL.unpack(header)[9:11]
    if _read(file, offset + LOCAL.size, name_size) != name.encode():
        raise ValueError(f"the member {name[:100]!r} has two names")
    return offset + LOCAL.size + name_size + extra_size


def _read(file: IO[bytes], start: int, size: int) -> bytes:
    file.seek(start)
    return file.read(size)
