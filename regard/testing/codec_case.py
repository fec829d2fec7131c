"""Base of test cases for fields and answers, learned from rows in a temporary run folder."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor


class CodecRun:
    """The files of a run with a config and codecs, without a plan: ``core.task.RunFiles``."""

    contents: dict[str, str] | None = None
    makes_codecs = True

    def __init__(self, path: Path, config: Any) -> None:
        self.path, self.config = path, config
        self.data, self.tokenizers = path / "data", path / "tokenizers"
        self.tokenizers.mkdir(parents=True)


@dataclass
class CodecCase:
    """A field or an answer with training rows.

    Attributes:
        make: returns the field or answer before learning.
        rows: inputs of its ``value``; at least five, with different values.
        config: config of the run, as far as ``learn`` and ``open`` read it.
        folder: temporary folder, removed with the case.
    """

    make: Callable[[], Any]
    rows: Sequence[Any]
    config: Any = None
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp()))

    def __post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    @cached_property
    def run(self) -> CodecRun:
        return CodecRun(self.folder, self.config)

    @cached_property
    def values(self) -> list[Any]:
        part = self.make()
        return [part.value(row) for row in self.rows]

    @cached_property
    def locations(self) -> list[str]:
        return [f"row {number}" for number in range(len(self.rows))]


def equal_values(one: Any, other: Any) -> bool:
    """Return whether two values are equal.

    Arrays and tensors are compared by dtype and all elements; sequences, and dataclasses without ``__eq__``, by all
    parts.
    """
    if isinstance(one, Tensor | np.ndarray) or isinstance(other, Tensor | np.ndarray):
        left, right = np.asarray(one), np.asarray(other)
        return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(equal_values, one, other))
    if is_dataclass(one) and type(one) is type(other) and type(one).__eq__ is object.__eq__:
        return all(equal_values(getattr(one, part.name), getattr(other, part.name)) for part in fields(one))
    return bool(one == other)
