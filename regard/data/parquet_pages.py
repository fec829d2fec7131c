"""Sizes of the pages of a Parquet file, read from the pages' own headers before anything is unpacked.

A reader takes memory by these headers, whatever the file's metadata says. They are structs of Thrift's compact protocol
(``parquet.thrift`` of https://github.com/apache/parquet-format), of which a few numbers count here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

WINDOWS = (1 << 10, 1 << 20)  # bytes of a header: it may hold the smallest and the largest value, so try the second
DEPTH = 16  # structs and lists inside each other
# Field numbers of PageHeader, and of the header of each type of page that it holds.
TYPE, UNPACKED, PACKED = 1, 2, 3
HEADERS = {0: 5, 2: 7, 3: 8}  # by type: data page, dictionary, data page of version 2
VALUES = 1
ENCODING = {0: 2, 2: 2, 3: 4}
DICTIONARY = 2  # type of page
PREFIXED = 7  # encoding DELTA_BYTE_ARRAY: a value is the beginning of the one before it, and a rest
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12


class Page(NamedTuple):
    """Unpacked bytes and values of a page, and whether a value of it may be written many times in a few bytes."""

    size: int
    values: int
    repeats: bool


def pages(file: BinaryIO, start: int, values: int) -> Iterator[Page]:
    """The pages of a column chunk from ``start`` on, until they have ``values`` values. ValueError for damage."""
    seen = 0
    while seen < values:
        header, length = _header(file, start)
        kind, size, packed = (_number(header, field) for field in (TYPE, UNPACKED, PACKED))
        inner = header.get(HEADERS.get(kind, 0), {})
        count = _number(inner, VALUES) if inner else 0
        repeats = kind == DICTIONARY or inner.get(ENCODING.get(kind, 0)) == PREFIXED
        yield Page(size, count, repeats)
        start += length + packed
        seen += 0 if kind == DICTIONARY else count


def _header(file: BinaryIO, start: int) -> tuple[dict[int, Any], int]:
    """The fields of the header at ``start``, and its length."""
    for window in WINDOWS:
        file.seek(start)
        data = file.read(window)
        try:
            return _struct(data, 0, 0)
        except IndexError:  # beyond the window
            continue
    raise ValueError("the header of a page is damaged")


def _number(fields: dict[int, Any], field: int) -> int:
    found = fields.get(field)
    if not isinstance(found, int) or found < 0:
        raise ValueError("the header of a page is damaged")
    return found


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """The fields of a struct by number, and the place after it; texts, lists and the like are None."""
    if depth > DEPTH:
        raise ValueError("the header of a page is nested too deep")
    fields: dict[int, Any] = {}
    field = 0
    while kind := data[at] & 15:
        step, at = data[at] >> 4, at + 1
        if step:
            field += step
        else:
            field, at = _signed(data, at)
        fields[field], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind == STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (LIST, SET):
        return None, _after_list(data, at, depth + 1)
    if kind == BINARY:
        length, at = _unsigned(data, at)
        return None, at + length
    if kind in (BYTE, DOUBLE):
        return None, at + (1 if kind == BYTE else 8)
    if kind == MAP:
        raise ValueError("the header of a page is damaged")
    return _signed(data, at)


def _after_list(data: bytes, at: int, depth: int) -> int:
    size, kind, at = data[at] >> 4, data[at] & 15, at + 1
    if size == 15:
        size, at = _unsigned(data, at)
    for _ in range(size):
        before = at
        _, at = (None, at + 1) if kind in (TRUE, FALSE) else _value(data, at, kind, depth)
        if at <= before or at > len(data):
            raise ValueError("the header of a page is damaged")
    return at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 70:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at
    raise ValueError("the header of a page is damaged")


def _signed(data: bytes, at: int) -> tuple[int, int]:
    number, at = _unsigned(data, at)
    return (number >> 1) ^ -(number & 1), at
