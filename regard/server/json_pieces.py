"""JSON encoding of large responses in pieces, which lets other threads run in between.

The encoders of the standard library and of pydantic are written in C and Rust. They hold the interpreter lock until the
whole value is encoded, so the event loop waits: one megabyte takes about 30 ms.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from pydantic import BaseModel

PIECE = 4_000  # values that are written at once
_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=lambda model: model.model_dump(mode="json")
)


def write_json(value: Any) -> bytes:
    """Return the JSON of numbers, texts, lists, objects and pydantic models; null for numbers that are not finite."""
    return b"".join(piece.encode() for piece in _pieces(value))


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, BaseModel) and not _is_small(value):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, list | tuple) and not _is_small(value):
        yield from _joined("[", map(_pieces, value), "]") if _holds_lists(value) else _slices(value)
    elif isinstance(value, Mapping) and not _is_small(value):
        yield from _joined("{", (_member(str(name), member) for name, member in value.items()), "}")
    else:
        yield _encode(value)


def _encode(value: Any) -> str:
    try:
        return _ENCODER.encode(value)
    except ValueError:
        return _ENCODER.encode(_finite(value))


def _finite(value: Any) -> Any:
    """Return a value with None for numbers that are not finite."""
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {name: _finite(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _member(name: str, value: Any) -> Iterator[str]:
    yield _encode(name) + ":"
    yield from _pieces(value)


def _joined(begin: str, members: Iterable[Iterator[str]], end: str) -> Iterator[str]:
    for number, member in enumerate(members):
        yield "," if number else begin
        yield from member
    yield end


def _slices(values: list[Any] | tuple[Any, ...]) -> Iterator[str]:
    """Yield the JSON of a long list of plain values."""
    for start in range(0, len(values), PIECE):
        yield ("," if start else "[") + _encode(values[start : start + PIECE])[1:-1]
    yield "]"


def _holds_lists(values: list[Any] | tuple[Any, ...]) -> bool:
    return any(isinstance(value, list | tuple | Mapping | BaseModel) for value in values)


def _is_small(value: Any) -> bool:
    """Return whether a value contains at most ``PIECE`` values; counting stops there."""
    count, waiting = 0, [value]
    while waiting and count <= PIECE:
        value = waiting.pop()
        count += 1
        if isinstance(value, BaseModel):
            waiting += [getattr(value, name) for name in type(value).model_fields]
        elif isinstance(value, Mapping):
            waiting += islice(value.values(), PIECE)
            count += max(len(value) - PIECE, 0)
        elif isinstance(value, list | tuple):
            waiting += value[:PIECE]
            count += max(len(value) - PIECE, 0)
    return count <= PIECE
