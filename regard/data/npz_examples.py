"""Arrays of examples in .npz files: concatenated values, the bounds of each example, and one cell per example."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.core.wording import pluralize
from regard.data.foreign_errors import foreign_errors
from regard.errors import DataError

OFFSETS = "offsets"


def example_bounds(
    arrays: Mapping[str, npt.NDArray[Any]], values: str, count: int, path: Path
) -> npt.NDArray[np.int64]:
    """Return the start of each example in an array of ``count`` values, and the end of the last one.

    Raises:
        DataError: if the array ``OFFSETS`` is missing, or does not rise from 0 to ``count``.
    """
    offsets: npt.NDArray[np.int64] = typed_array(arrays, OFFSETS, "iu", 1, path).astype(np.int64)
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != count or (np.diff(offsets) <= 0).any():
        why = f"expected increasing numbers from 0 to {count:,}, the number of {values}, one per example and the end"
        if len(wrong := np.flatnonzero(np.diff(offsets) <= 0)):
            why += f"; example {wrong[0] + 1} ranges from {offsets[wrong[0]]} to {offsets[wrong[0] + 1]}"
        raise DataError(f"the array {OFFSETS} does not match the {values}", where=str(path), why=why)
    return offsets


def typed_array(arrays: Mapping[str, npt.NDArray[Any]], name: str, kinds: str, dimensions: int, path: Path) -> Any:
    """Return an array; raise DataError if it is missing or has another type or number of dimensions."""
    array = arrays.get(name)
    if array is None:
        why = f"the arrays of the file are {', '.join(arrays)}" if arrays else "the file has no arrays"
        raise DataError(f"the array {name} is missing", where=str(path), why=why, help="docs/how-to/classify.md")
    if array.dtype.kind not in kinds or array.ndim != dimensions:
        types = " or ".join({"i": "integers", "f": "floats", "U": "texts"}[kind] for kind in kinds if kind != "u")
        expected = f"expected {types} with {pluralize(dimensions, 'dimension')}"
        why = f"{expected}, found {array.dtype} with {pluralize(array.ndim, 'dimension')}"
        raise DataError(
            f"the array {name} has the wrong type or shape", where=str(path), why=why, help="docs/how-to/classify.md"
        )
    return array


def example_cells(arrays: Mapping[str, npt.NDArray[Any]], name: str, examples: int, path: Path) -> list[str]:
    """Return the texts or numbers of an array, one per example, as texts."""
    array = typed_array(arrays, name, "iufU", 1, path)
    if len(array) != examples:
        what = f"the array {name} has {pluralize(len(array), 'entry', 'entries')} for {pluralize(examples, 'example')}"
        raise DataError(what, where=str(path), why=f"{OFFSETS} has one more entry than there are examples")
    with foreign_errors(f"the array {name} is damaged", path):
        cells = [str(cell) for cell in array.tolist()]
        "".join(cells).encode()
    return cells
