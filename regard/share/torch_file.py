"""Tensors and plain values of a file of ``torch.save``, without torch's own loader: nothing is imported or called.

A file is a zip archive with a pickle and one member per storage, or, before torch 1.6, pickles followed by the
storages. The pickle is read from its opcodes. Sizes, offsets and strides are checked before memory is taken.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import torch
from torch import Tensor

from regard.core.untrusted_files import open_regular
from regard.data.opcodes import PERSISTENT, PickledObject, read_opcodes
from regard.errors import DataError, ModelError
from regard.share.marian_folder import invalid_folder
from regard.share.stored_zip import Member, read_members

PICKLE, OPCODES = 1 << 26, 4_000_000  # bytes and opcodes of the pickle: more than any vocabulary needs
DIMENSIONS = 8
SHARED = 8  # times the bytes of the file that its tensors may have together: some share a storage
MAGIC = 0x1950A86A20F9469CFC6C  # first value of a file of torch before 1.6
REBUILT = ("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor")
PARAMETER = "torch._utils _rebuild_parameter"
STORAGES = {
    "torch DoubleStorage": ("F64", torch.float64), "torch FloatStorage": ("F32", torch.float32),
    "torch HalfStorage": ("F16", torch.float16), "torch BFloat16Storage": ("BF16", torch.bfloat16),
    "torch LongStorage": ("I64", torch.int64), "torch IntStorage": ("I32", torch.int32),
    "torch ShortStorage": ("I16", torch.int16), "torch CharStorage": ("I8", torch.int8),
    "torch ByteStorage": ("U8", torch.uint8), "torch BoolStorage": ("BOOL", torch.bool),
}  # fmt: skip


class StoredTensor(NamedTuple):
    """A tensor whose numbers are still in the file: its type, its shape, and its view of a storage."""

    kind: str  # of its numbers, as safetensors names it
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int  # in numbers
    storage: Member

    @property
    def last(self) -> int:
        """Index of the last number in the storage."""
        return self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))

    def get_shape(self) -> list[int]:
        return list(self.shape)

    def get_dtype(self) -> str:
        return self.kind


class TorchFile:
    """An open file of ``torch.save``.

    Args:
        path: the path of the file, for errors.
        file: the open file.

    Attributes:
        value: the content of the file, in which tensors are ``PickledObject``; ``tensors`` reads those of a table.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self._file = path, file
        self._size = file.seek(0, 2)
        file.seek(0)
        is_zip = file.read(4) == b"PK\3\4"
        self.value, self._storages = self._read_zip() if is_zip else self._read_legacy()

    def tensors(self, table: Any) -> dict[str, StoredTensor]:
        """Return the tensors of a state dict by name. ModelError if one is damaged or larger than the file."""
        tensors: dict[str, StoredTensor] = {}
        left = SHARED * self._size
        for name, value in mapping_of(table).items():
            if isinstance(value, PickledObject) and (view := _view(value)) is not None:
                try:
                    tensors[name] = self._checked(view)
                    left -= math.prod(tensors[name].shape) * tensors[name].dtype.itemsize
                    if left < 0:
                        raise ValueError(f"it and the tensors before it are {SHARED} times larger than the file")
                except (ValueError, TypeError, KeyError, OverflowError) as error:
                    raise invalid_folder(self.path, f"the tensor {name[:200]}: {error}") from error
        return tensors

    def read(self, tensor: StoredTensor) -> Tensor:
        """Return the numbers of a tensor."""
        if not math.prod(tensor.shape):
            return torch.zeros(tensor.shape, dtype=tensor.dtype)
        size, item = (tensor.last + 1 - tensor.offset) * tensor.dtype.itemsize, tensor.dtype.itemsize
        self._file.seek(tensor.storage.start + tensor.offset * item)
        numbers = bytearray(self._file.read(size))
        if len(numbers) != size:
            raise invalid_folder(self.path, "it is truncated")
        return torch.frombuffer(numbers, dtype=tensor.dtype).as_strided(tensor.shape, tensor.strides)

    def _read_zip(self) -> tuple[Any, dict[str, Member]]:
        members = read_members(self._file)
        pickles = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(pickles) != 1:
            raise ValueError("it has no pickle of torch.save")
        folder = pickles[0].removesuffix("data.pkl")
        order = members.get(f"{folder}byteorder")
        if order is not None and self._bytes(order) != b"little":
            raise ValueError("its numbers have the bytes of another type of machine")
        value = read_opcodes(self._bytes(members[pickles[0]]), str(self.path), OPCODES)
        prefix = f"{folder}data/"
        return value, {name.removeprefix(prefix): own for name, own in members.items() if name.startswith(prefix)}

    def _read_legacy(self) -> tuple[Any, dict[str, Member]]:
        self._file.seek(0)
        pickles = cast(IO[bytes], _Limited(self._file, PICKLE))
        parts = [read_opcodes(pickles, str(self.path), OPCODES) for _ in range(2)]
        if parts[0] != MAGIC:
            raise ValueError("it was not written by torch.save")
        machine, value, keys = (read_opcodes(pickles, str(self.path), OPCODES) for _ in range(3))
        if not isinstance(machine, dict) or machine.get("little_endian") is not True:
            raise ValueError("its numbers have the bytes of another type of machine")
        if not isinstance(keys, list):
            raise ValueError("its list of storages is damaged")
        sizes = _item_sizes(value)
        storages: dict[str, Member] = {}
        place = self._file.tell()
        for key in keys:
            header = self._file.read(8)
            count = struct.unpack("<q", header)[0] if len(header) == 8 else -1
            if not isinstance(key, str) or key in storages or count < 0:
                raise ValueError("its list of storages is damaged")
            size = count * sizes.get(key, 0)
            if place + 8 + size > self._size or key not in sizes:
                raise ValueError(f"the storage {key[:50]!r} is larger than the file")
            storages[key] = Member(place + 8, size)
            place = self._file.seek(place + 8 + size)
        return value, storages

    def _bytes(self, member: Member) -> bytes:
        if member.size > PICKLE:
            raise ValueError(f"its pickle has more than {PICKLE:,} bytes")
        self._file.seek(member.start)
        return self._file.read(member.size)

    def _checked(self, view: tuple[Any, ...]) -> StoredTensor:
        """Return the view of a storage after checking that it is inside it and has no number twice."""
        storage, offset, shape, strides = view
        (kind, dtype), key, count = _storage_id(storage)
        member = self._storages[key]
        numbers = (offset, *shape, *strides)
        if len(shape) != len(strides) or len(shape) > DIMENSIONS or not all(_is_index(n) for n in numbers):
            raise ValueError("its shape is damaged")
        if member.size != count * dtype.itemsize:
            raise ValueError(f"its storage has a size of {member.size:,}; expected {count * dtype.itemsize:,}")
        tensor = StoredTensor(kind, dtype, shape, strides, offset, member)
        if math.prod(shape) and tensor.last >= count:
            raise ValueError("it is larger than its storage")
        covered = 1
        for stride, size in sorted(zip(strides, shape, strict=True)):
            if size > 1 and stride < covered:
                raise ValueError("its elements overlap")
            covered = max(covered, stride * size)
        return tensor


class TensorTable:
    """Tensors of an open file with the interface of a safetensors file, as ``ForeignTensors`` reads it."""

    def __init__(self, file: TorchFile, tensors: Mapping[str, StoredTensor]) -> None:
        self._file, self._tensors = file, tensors

    def keys(self) -> list[str]:
        return list(self._tensors)

    def get_tensor(self, name: str) -> Tensor:
        return self._file.read(self._tensors[name])

    def get_slice(self, name: str) -> StoredTensor:
        return self._tensors[name]


@contextmanager
def open_torch(path: Path) -> Iterator[TorchFile]:
    """Open a file of ``torch.save``. ModelError if it is damaged or not such a file."""
    try:
        file = open(path, "rb", opener=open_regular)
    except OSError as error:
        raise ModelError(f"{path.name} cannot be read", where=str(path), why=error.strerror) from error
    with file:
        try:
            opened = TorchFile(path, file)
        except DataError as error:
            raise invalid_folder(path, f"its pickle is damaged: {error.why}") from error
        except (ValueError, KeyError, TypeError, OverflowError, struct.error) as error:
            raise invalid_folder(path, str(error)) from error
        yield opened


def mapping_of(value: Any) -> dict[str, Any]:
    """Return a dict, an OrderedDict or the attributes of an object as a dict with the keys that are texts."""
    if isinstance(value, PickledObject):
        state = value.state if isinstance(value.state, dict) else {}
        value = dict(pair for pair in value.pairs if isinstance(pair[0], str)) or state
    return {key: item for key, item in value.items() if isinstance(key, str)} if isinstance(value, dict) else {}


def _view(value: PickledObject) -> tuple[Any, ...] | None:
    """Return storage, offset, shape and strides of a tensor; None for another object."""
    if value.name == PARAMETER and value.arguments and isinstance(value.arguments[0], PickledObject):
        value = value.arguments[0]
    if value.name not in REBUILT or value.arguments is None or len(value.arguments) < 4:
        return None
    storage, offset, shape, strides = value.arguments[:4]
    if not isinstance(shape, tuple) or not isinstance(strides, tuple):
        return None
    return storage, offset, shape, strides


def _storage_id(storage: Any) -> tuple[tuple[str, torch.dtype], str, int]:
    """Return the type, the key and the number of elements of a storage. ValueError if it is damaged."""
    is_reference = isinstance(storage, PickledObject) and storage.name == PERSISTENT and storage.arguments
    parts = storage.arguments[0] if is_reference else None
    if not isinstance(parts, tuple) or len(parts) < 5 or parts[0] != "storage":
        raise ValueError("its storage is damaged")
    kind, key, count = parts[1], parts[2], parts[4]
    if not isinstance(kind, PickledObject) or kind.name not in STORAGES:
        raise ValueError("its numbers have an unknown type")
    if not isinstance(key, str) or not _is_index(count):
        raise ValueError("its storage is damaged")
    return STORAGES[kind.name], key, count


def _is_index(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


def _item_sizes(value: Any) -> dict[str, int]:
    """Return the bytes of a number of each storage that the value refers to."""
    sizes: dict[str, int] = {}
    visited: set[int] = set()
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, (str, bytes, int, float)) or id(part) in visited:
            continue
        visited.add(id(part))
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, (list, tuple)):
            waiting += part
        elif isinstance(part, PickledObject):
            if part.name == PERSISTENT:
                (_, dtype), key, _ = _storage_id(part)
                sizes[key] = dtype.itemsize
            waiting += [part.arguments, part.state, part.items]
            waiting += (item for _, item in part.pairs)
    return sizes


class _Limited:
    """A file of which at most a number of bytes is read, line by line or piece by piece."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file, self._left = file, limit

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self._left:
            raise ValueError("its pickle is too long")
        self._left -= size
        return self._file.read(size)

    def readline(self) -> bytes:
        line = self._file.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise ValueError("its pickle is too long")
        return line
