"""JSON of large answers, written in pieces so that other threads have their turn.

The encoders of the standard library and of pydantic are written in C and Rust. They hold the interpreter until a whole
value is written, in any thread, and the event loop waits: a megabyte takes some 30 ms.
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
    """Return JSON of numbers, texts, lists, objects and pydantic models; null for a number that is not finite."""
    return b"".join(piece.encode() for piece in _pieces(value))


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, BaseModel) and not _is_small(value):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, list | tuple) and not _is_small(value):
        yield from _joined("[", map(_pieces, value), "]") if _holds_lists(value) else _slices(value)
    elif isinstance(value, Mapping) and not _is_small(value):
        yield from _joined("{", (_member(str(name), each) for name, each in value.items()), "}")
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
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
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
    """Write a long list of plain values."""
    for start in range(0, len(values), PIECE):
        yield ("," if start else "[") + _encode(values[start : start + PIECE])[1:-1]
    yield "]"


def _holds_lists(values: list[Any] | tuple[Any, ...]) -> bool:
    return any(isinstance(value, list | tuple | Mapping | BaseModel) for value in values)


def _is_small(value: Any) -> bool:
    """Return whether a value has few values in it; counted no further than to ``PIECE``."""
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
