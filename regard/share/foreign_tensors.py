"""Tensors of a foreign safetensors file, or of several with an index: seen to be as expected before they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import safetensors
from torch import Tensor

from regard.share.marian_folder import invalid_folder, json_of, weights_file

FLOATS = ("F64", "F32", "F16", "BF16")
INDEX = "model.safetensors.index.json"
SHARD = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}\.safetensors")  # a name, not a path
MOST = 1000  # files


class ForeignTensors:
    """The tensors of an open file; shapes and formats are checked before data is read."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path, self._file = path, file
        self.names = frozenset(file.keys())

    def __getitem__(self, name: str) -> Tensor:
        found: Tensor = self._file.get_tensor(name)
        return found.float()

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._file.get_slice(name).get_shape())

    def first(self, names: list[str]) -> str:
        """The first of these names that the file has, or else the first of them."""
        return next((name for name in names if name in self.names), names[0])

    def require(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """ModelError where one of these tensors is missing, of another shape, or not of floating point."""
        for name, shape in shapes.items():
            if name not in self.names:
                raise invalid_folder(self.path, f"it lacks {name}")
            stored = self._file.get_slice(name)
            if tuple(stored.get_shape()) != shape:
                raise invalid_folder(
                    self.path, f"{name} has the shape {stored.get_shape()}, and by its config {list(shape)}"
                )
            if stored.get_dtype() not in FLOATS:
                raise invalid_folder(self.path, f"{name} is in {stored.get_dtype()}, not in floating point")

    def refuse_others(self, known: Iterable[str]) -> None:
        """ModelError where the file has a tensor that is not imported: the model would differ without it."""
        if others := sorted(self.names.difference(known)):
            raise invalid_folder(self.path, f"it holds {others[0]}, which no such model has")


@contextmanager
def open_tensors(folder: Path) -> Iterator[ForeignTensors]:
    """The tensors of ``model.safetensors`` or of the files that an index names; ModelError where one is not whole."""
    single = folder / INDEX if (folder / INDEX).is_file() and not (folder / "model.safetensors").is_file() else None
    path = single or weights_file(folder, "AutoModelForCausalLM")
    try:
        with ExitStack() as opened:
            if single is None:
                yield ForeignTensors(path, opened.enter_context(safetensors.safe_open(path, framework="pt")))
            else:
                yield ForeignTensors(path, _Shards(folder, opened))
    except safetensors.SafetensorError as error:
        raise invalid_folder(path, str(error)) from error


class _Shards:
    """Several files as one."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        path = folder / INDEX
        named = json_of(path).get("weight_map")
        if not isinstance(named, dict) or not all(isinstance(each, str) for each in named.values()):
            raise invalid_folder(path, "its weight_map is no table of names")
        files = sorted(set(named.values()))
        if len(files) > MOST:
            raise invalid_folder(path, f"it names more than {MOST:,} files")
        self._files: dict[str, Any] = {}
        for name in files:
            if not SHARD.fullmatch(name):
                raise invalid_folder(path, f"{name[:200]!r} is no name of a safetensors file beside it")
            if not (folder / name).is_file():
                raise invalid_folder(path, f"there is no {name}, which it names")
            self._files[name] = opened.enter_context(safetensors.safe_open(folder / name, framework="pt"))
        there = {name: frozenset(file.keys()) for name, file in self._files.items()}
        for tensor, name in named.items():
            if tensor not in there[name]:
                raise invalid_folder(path, f"{name} lacks {tensor[:200]}")
        self._named: dict[str, str] = named

    def keys(self) -> list[str]:
        return list(self._named)

    def get_tensor(self, name: str) -> Any:
        return self._files[self._named[name]].get_tensor(name)

    def get_slice(self, name: str) -> Any:
        return self._files[self._named[name]].get_slice(name)
