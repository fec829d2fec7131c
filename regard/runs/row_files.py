"""Files of a checkpoint that several ranks write, each with some rows of the tensors, as torch's reader takes them.

    model.rank-00001-of-00002.safetensors

The header says where in the whole each tensor lies, under the key and in the form of ``torch.distributed.checkpoint``'s
``HuggingFaceStorageReader``; ``whole_shape`` beside it is Regard's own. The files of a group are read one after the
other into tensors that are made once, after the headers of all have been found to fit together.
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

PLACES = "DCP_SHARDING_INFO"  # torch's key of the header
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
          "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool}  # fmt: skip

Shapes = dict[str, tuple[str, tuple[int, ...]]]  # number format, as safetensors spells it, and shape


class Rows(NamedTuple):
    """Some rows of a tensor of a ``shape``, from the row ``first`` on."""

    tensor: Tensor
    first: int
    shape: tuple[int, ...]


class _Place(NamedTuple):
    kind: str
    first: int
    rows: int
    whole: tuple[int, ...]


def file_names(group: str, ranks: int) -> list[str]:
    return [f"{group}.rank-{rank:05d}-of-{ranks:05d}.safetensors" for rank in range(1, ranks + 1)]


def row_bytes(parts: Mapping[str, Rows]) -> bytes:
    """One rank's file."""
    places = {
        name: {"saved_offsets": [part.first, *[0] * (part.tensor.ndim - 1)][: part.tensor.ndim],
               "whole_shape": list(part.shape)}
        for name, part in parts.items()
    }  # fmt: skip
    tensors = separate({name: part.tensor for name, part in parts.items()})
    return safetensors.torch.save(tensors, {PLACES: json.dumps(places), "DCP_VERSION": "1.0"})


def joined_shapes(headers: Sequence[Mapping[str, Any]]) -> Shapes:
    """Number format and shape of every tensor, given the header of each file. ValueError where rows are missing."""
    return {name: (pieces[0].kind, pieces[0].whole) for name, pieces in _places(headers).items()}


def read_rows(files: Iterator[bytes], headers: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """Whole tensors of the files, whose ``headers`` were read before. ValueError where they are not the same any more.

    Holds one file beside them.
    """
    shapes = joined_shapes(headers)
    found: dict[str, Tensor] = {}
    for data, header in zip(files, headers, strict=True):
        if header_of(data, len(data)) != header:
            raise ValueError("a header changed while it was read")
        places = _places_in(header)
        for name, tensor in safetensors.torch.load(data).items():
            kind, shape = shapes[name]
            whole = found.setdefault(name, torch.empty(shape, dtype=DTYPES[kind]))
            if shape:
                whole[places[name].first : places[name].first + places[name].rows] = tensor
            else:
                whole.copy_(tensor)
    return found


def header_of(data: bytes, size: int) -> dict[str, Any]:
    """The header of a safetensors file of ``size`` bytes, given at least its beginning.

    ValueError unless its tensors are as large as the file: nothing is to take memory for more than was received.
    """
    end = 8 + int.from_bytes(data[:8], "little")
    header = parse_json(data[8:end])
    if not isinstance(header, dict):
        raise ValueError("its header is no table")
    entries = [entry for name, entry in header.items() if name != "__metadata__"]
    if end + sum(math.prod(entry["shape"]) * DTYPES[entry["dtype"]].itemsize for entry in entries) != size:
        raise ValueError("its tensors are not as large as the file")
    return header


def _places(headers: Sequence[Mapping[str, Any]]) -> dict[str, list[_Place]]:
    """Pieces of every tensor, first row first; ValueError unless they are all of it, each row once."""
    found: dict[str, list[_Place]] = {}
    for header in headers:
        for name, place in _places_in(header).items():
            found.setdefault(name, []).append(place)
    for name, pieces in found.items():
        pieces.sort(key=lambda piece: (piece.first, piece.rows))
        if len({(piece.kind, piece.whole) for piece in pieces}) > 1:
            raise ValueError(f"{name[:80]} is of several kinds or shapes")
        row = 0
        for piece in pieces:
            if piece.first != row:
                raise ValueError(f"rows of {name[:80]} are missing, or there twice")
            row += piece.rows
        if row != (pieces[0].whole[0] if pieces[0].whole else 1):
            raise ValueError(f"rows of {name[:80]} are missing, or there twice")
    return found


def _places_in(header: Mapping[str, Any]) -> dict[str, _Place]:
    places = parse_json(header["__metadata__"][PLACES].encode())
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        shape, kind, place = tuple(entry["shape"]), entry["dtype"], places[name]
        whole, offsets = tuple(place["whole_shape"]), place["saved_offsets"]
        numbers = (*whole, *offsets)
        if kind not in DTYPES or any(type(each) is not int or each < 0 for each in numbers):
            raise ValueError(f"the place of {name[:80]} is no place")
        if len(whole) != len(shape) or len(offsets) != len(shape) or whole[1:] != shape[1:] or any(offsets[1:]):
            raise ValueError(f"{name[:80]} is cut otherwise than by rows")
        found[name] = _Place(kind, offsets[0] if offsets else 0, shape[0] if shape else 1, whole)
    return found
