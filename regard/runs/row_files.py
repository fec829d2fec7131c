"""Checkpoint files of several ranks, each with some rows of the tensors, in the format of torch's reader.

    model.rank-00001-of-00002.safetensors

The header states the position of each tensor in the whole, with the key and in the form of
``torch.distributed.checkpoint``'s ``HuggingFaceStorageReader``; the additional ``whole_shape`` is Regard's own. The
headers of all files are checked for consistency first. The files of a group are then read one after another into
preallocated tensors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from regard.core.tensors import separate
from regard.core.untrusted_files import parse_json

SHARDING_KEY = "DCP_SHARDING_INFO"  # torch's key in the header
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
          "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool}  # fmt: skip

Shapes = dict[str, tuple[str, tuple[int, ...]]]  # number format, in safetensors' notation, and shape


class Rows(NamedTuple):
    """Some rows of a tensor with the whole shape ``shape``, beginning with row ``first``."""

    tensor: Tensor
    first: int
    shape: tuple[int, ...]


class _Piece(NamedTuple):
    kind: str
    first: int
    rows: int
    whole: tuple[int, ...]


def file_names(group: str, ranks: int) -> list[str]:
    return [f"{group}.rank-{rank:05d}-of-{ranks:05d}.safetensors" for rank in range(1, ranks + 1)]


def row_bytes(parts: Mapping[str, Rows]) -> bytes:
    """Return the content of one rank's file."""
    positions = {
        name: {"saved_offsets": [part.first, *[0] * (part.tensor.ndim - 1)][: part.tensor.ndim],
               "whole_shape": list(part.shape)}
        for name, part in parts.items()
    }  # fmt: skip
    tensors = separate({name: part.tensor for name, part in parts.items()})
    return safetensors.torch.save(tensors, {SHARDING_KEY: json.dumps(positions), "DCP_VERSION": "1.0"})


def joined_shapes(headers: Sequence[Mapping[str, Any]]) -> Shapes:
    """Return the number format and shape of every tensor from all headers. ValueError if rows are missing."""
    return {name: (pieces[0].kind, pieces[0].whole) for name, pieces in _all_pieces(headers).items()}


def read_rows(files: Iterator[bytes], headers: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """Return the whole tensors of the files. ValueError if a file no longer matches its header, read before.

    Memory: the tensors and one file.
    """
    shapes = joined_shapes(headers)
    tensors: dict[str, Tensor] = {}
    for data, header in zip(files, headers, strict=True):
        if header_of(data, len(data)) != header:
            raise ValueError("a header changed while it was read")
        pieces = _pieces_in(header)
        for name, tensor in safetensors.torch.load(data).items():
            kind, shape = shapes[name]
            whole = tensors.setdefault(name, torch.empty(shape, dtype=DTYPES[kind]))
            if shape:
                whole[pieces[name].first : pieces[name].first + pieces[name].rows] = tensor
            else:
                whole.copy_(tensor)
    return tensors


def header_of(data: bytes, size: int) -> dict[str, Any]:
    """Return the header of a safetensors file of ``size`` bytes, given at least its beginning.

    ValueError unless its tensors have exactly the size of the file: a file must not claim more memory than it has
    bytes.
    """
    end = 8 + int.from_bytes(data[:8], "little")
    header = parse_json(data[8:end])
    if not isinstance(header, dict):
        raise ValueError("its header is not a table")
    entries = [entry for name, entry in header.items() if name != "__metadata__"]
    if end + sum(math.prod(entry["shape"]) * DTYPES[entry["dtype"]].itemsize for entry in entries) != size:
        raise ValueError("its tensors and the file differ in size")
    return header


def _all_pieces(headers: Sequence[Mapping[str, Any]]) -> dict[str, list[_Piece]]:
    """Return the pieces of every tensor, sorted by first row. ValueError unless they contain each row exactly once."""
    pieces_by_name: dict[str, list[_Piece]] = {}
    for header in headers:
        for name, piece in _pieces_in(header).items():
            pieces_by_name.setdefault(name, []).append(piece)
    for name, pieces in pieces_by_name.items():
        pieces.sort(key=lambda piece: (piece.first, piece.rows))
        if len({(piece.kind, piece.whole) for piece in pieces}) > 1:
            raise ValueError(f"{name[:80]} has different types or shapes")
        row = 0
        for piece in pieces:
            if piece.first != row:
                raise ValueError(f"rows of {name[:80]} are missing or duplicated")
            row += piece.rows
        if row != (pieces[0].whole[0] if pieces[0].whole else 1):
            raise ValueError(f"rows of {name[:80]} are missing or duplicated")
    return pieces_by_name


def _pieces_in(header: Mapping[str, Any]) -> dict[str, _Piece]:
    positions = parse_json(header["__metadata__"][SHARDING_KEY].encode())
    pieces = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        shape, kind, position = tuple(entry["shape"]), entry["dtype"], positions[name]
        whole, offsets = tuple(position["whole_shape"]), position["saved_offsets"]
        numbers = (*whole, *offsets)
        if kind not in DTYPES or any(type(number) is not int or number < 0 for number in numbers):
            raise ValueError(f"the position of {name[:80]} is invalid")
        if len(whole) != len(shape) or len(offsets) != len(shape) or whole[1:] != shape[1:] or any(offsets[1:]):
            raise ValueError(f"{name[:80]} is sharded by other dimensions than rows")
        pieces[name] = _Piece(kind, offsets[0] if offsets else 0, shape[0] if shape else 1, whole)
    return pieces
