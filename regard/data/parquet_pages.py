"""Sizes of the pages of a Parquet file, read from the page headers before anything is unpacked.

Readers allocate memory by these headers, regardless of the metadata of the file. Headers are structs of Thrift's
compact protocol (``parquet.thrift`` of https://github.com/apache/parquet-format); only a few of their fields are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

WINDOWS = (1 << 10, 1 << 20)  # bytes to read for a header: first try, and second if it is longer
DEPTH = 16  # maximum nesting of structs and lists
# Field numbers of PageHeader, and of the type-specific header inside it.
TYPE, UNPACKED, PACKED = 1, 2, 3
HEADERS = {0: 5, 2: 7, 3: 8}  # by type: data page, dictionary, data page of version 2
VALUES = 1
ENCODING = {0: 2, 2: 2, 3: 4}
DICTIONARY = 2  # type of page
PREFIXED = 7  # encoding DELTA_BYTE_ARRAY: a value is a prefix of the previous one, and a suffix
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12


class Page(NamedTuple):
    """Unpacked bytes and number of values of a page, and whether its encoding can repeat a value in a few bytes."""

    size: int
    values: int
    repeats: bool


def pages(file: BinaryIO, start: int, values: int) -> Iterator[Page]:
    """Yield the pages of a column chunk from ``start`` until they have ``values`` values. ValueError if damaged."""
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
    """Return the fields of the header at ``start``, and its length."""
    for window in WINDOWS:
        file.seek(start)
        data = file.read(window)
        try:
            return _struct(data, 0, 0)
        except IndexError:  # beyond the window
            continue
    raise ValueError("the header of a page is damaged")


def _number(fields: dict[int, Any], field: int) -> int:
    number = fields.get(field)
    if not isinstance(number, int) or number < 0:
        raise ValueError("the header of a page is damaged")
    return number


def _struct(data: bytes, position: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct by number, and the position after it.

    Values other than numbers, booleans and structs are None.
    """
    if depth > DEPTH:
        raise ValueError("the header of a page is nested too deeply")
    fields: dict[int, Any] = {}
    field = 0
    while kind := data[position] & 15:
        step, position = data[position] >> 4, position + 1
        if step:
            field += step
        else:
            field, position = _signed(data, position)
        fields[field], position = _value(data, position, kind, depth)
    return fields, position + 1


def _value(data: bytes, position: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (TRUE, FALSE):
        return kind == TRUE, position
    if kind == STRUCT:
        return _struct(data, position, depth + 1)
    if kind in (LIST, SET):
        return None, _after_list(data, position, depth + 1)
    if kind == BINARY:
        length, position = _unsigned(data, position)
        return None, position + length
    if kind in (BYTE, DOUBLE):
        return None, position + (1 if kind == BYTE else 8)
    if kind == MAP:
        raise ValueError("the header of a page is damaged")
    return _signed(data, position)


def _after_list(data: bytes, position: int, depth: int) -> int:
    size, kind, position = data[position] >> 4, data[position] & 15, position + 1
    if size == 15:
        size, position = _unsigned(data, position)
    for _ in range(size):
        before = position
        _, position = (None, position + 1) if kind in (TRUE, FALSE) else _value(data, position, kind, depth)
        if position <= before or position > len(data):
            raise ValueError("the header of a page is damaged")
    return position


def _unsigned(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 70:
        number |= (data[position] & 127) << shift
        position, shift = position + 1, shift + 7
        if data[position - 1] < 128:
            return number, position
    raise ValueError("the header of a page is damaged")


def _signed(data: bytes, position: int) -> tuple[int, int]:
    number, position = _unsigned(data, position)
    return (number >> 1) ^ -(number & 1), position
