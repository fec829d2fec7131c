"""Tensors of a foreign safetensors file, or of several files with an index, checked before they are read."""

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
MAX_FILES = 1000


class ForeignTensors:
    """Tensors of an open file, whose names, shapes and data types can be checked before data is read."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path, self._file = path, file
        self._stored = {_current(name): name for name in file.keys()}
        self.names = frozenset(self._stored)

    def __getitem__(self, name: str) -> Tensor:
        tensor: Tensor = self._file.get_tensor(self._stored[name])
        return tensor.float()

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._file.get_slice(self._stored[name]).get_shape())

    def first(self, names: list[str]) -> str:
        """Return the first of these names that the file has; otherwise the first name."""
        return next((name for name in names if name in self.names), names[0])

    def require(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Raise ModelError if a tensor is missing, has another shape or is not floating point."""
        for name, shape in shapes.items():
            if name not in self.names:
                raise invalid_folder(self.path, f"the tensor {name} is missing")
            stored = self._file.get_slice(self._stored[name])
            if tuple(stored.get_shape()) != shape:
                raise invalid_folder(
                    self.path, f"{name} has the shape {stored.get_shape()}; the config implies {list(shape)}"
                )
            if stored.get_dtype() not in FLOATS:
                raise invalid_folder(
                    self.path, f"{name} has the type {stored.get_dtype()}, which is not floating point"
                )

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Raise ModelError if the file has a tensor that is not imported, because the outputs would differ."""
        if unknown := sorted(self.names.difference(known)):
            raise invalid_folder(self.path, f"the tensor {unknown[0]} is not part of such a model")


def _current(name: str) -> str:
    """Return the current name of a tensor: early checkpoints of BERT call weight and bias of a norm gamma and beta."""
    for early, current in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        if name.endswith(early):
            return name.removesuffix(early) + current
    return name


@contextmanager
def open_tensors(folder: Path, kind: str = "AutoModelForCausalLM") -> Iterator[ForeignTensors]:
    """Open ``model.safetensors``, or the files that an index names.

    Raises:
        ModelError: a file is damaged or missing; the message shows how the class ``kind`` of transformers writes it.
    """
    single = folder / INDEX if (folder / INDEX).is_file() and not (folder / "model.safetensors").is_file() else None
    path = single or weights_file(folder, kind)
    try:
        with ExitStack() as opened:
            if single is None:
                yield ForeignTensors(path, opened.enter_context(safetensors.safe_open(path, framework="pt")))
            else:
                yield ForeignTensors(path, _Shards(folder, opened))
    except safetensors.SafetensorError as error:
        raise invalid_folder(path, str(error)) from error


class _Shards:
    """Several safetensors files with the interface of one."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        path = folder / INDEX
        files_by_tensor = json_of(path).get("weight_map")
        if not isinstance(files_by_tensor, dict) or not all(isinstance(name, str) for name in files_by_tensor.values()):
            raise invalid_folder(path, "`weight_map` is not a table of file names")
        files = sorted(set(files_by_tensor.values()))
        if len(files) > MAX_FILES:
            raise invalid_folder(path, f"it names more than {MAX_FILES:,} files")
        self._files: dict[str, Any] = {}
        for name in files:
            if not SHARD.fullmatch(name):
                raise invalid_folder(path, f"{name[:200]!r} is not the name of a safetensors file in the same folder")
            if not (folder / name).is_file():
                raise invalid_folder(path, f"it names {name}, which does not exist")
            self._files[name] = opened.enter_context(safetensors.safe_open(folder / name, framework="pt"))
        tensors = {name: frozenset(file.keys()) for name, file in self._files.items()}
        for tensor, name in files_by_tensor.items():
            if tensor not in tensors[name]:
                raise invalid_folder(path, f"{name} has no tensor {tensor[:200]}")
        self._files_by_tensor: dict[str, str] = files_by_tensor

    def keys(self) -> list[str]:
        return list(self._files_by_tensor)

    def get_tensor(self, name: str) -> Any:
        return self._files[self._files_by_tensor[name]].get_tensor(name)

    def get_slice(self, name: str) -> Any:
        return self._files[self._files_by_tensor[name]].get_slice(name)
