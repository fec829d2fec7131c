"""Cora and Citeseer from the files of Planetoid (Yang et al. 2016): pickles of Python 2, read from their opcodes.

Rows of ``allx`` are nodes 0, 1, …; row k of ``tx`` is the node in line k of ``test.index``. Nodes between the smallest
and the largest test node without a line have no words and no class. Kipf and Welling (2017) keep them, isolated.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.opcodes import PickledObject, read_array, read_opcodes

PARTS = ("y", "allx", "ally", "tx", "ty", "graph", "test.index")
VALIDATION = 500  # nodes after those of the training part
MOST_NODES, MOST_EDGES = 100_000, 1_000_000

Array = npt.NDArray[Any]


class _Rows(NamedTuple):
    """Sparse rows: the words of row i are ``indices[starts[i] : starts[i + 1]]``, and their values."""

    values: Array
    indices: Array
    starts: Array
    width: int

    def row(self, number: int) -> tuple[Array, Array]:
        """Return the words of a row in order, and their values."""
        place = slice(self.starts[number], self.starts[number + 1])
        order = np.argsort(self.indices[place], kind="stable")
        return self.indices[place][order], self.values[place][order]


def convert_graph(name: str, files: Mapping[str, bytes]) -> bytes:
    """Return the arrays of a citation graph as ``.npz``.

    Args:
        name: ``cora`` or ``citeseer``.
        files: contents of ``ind.NAME.PART`` by their names.

    Raises:
        KeyError: a file is missing.
        DataError: a pickle has something other than plain values.
    """
    parts = {part: files[f"ind.{name}.{part}"] for part in PARTS}
    known, test = _rows(parts["allx"], name), _rows(parts["tx"], name)
    nodes = [int(line) for line in parts["test.index"].split()]
    first, count = min(nodes), max(nodes) + 1
    if len(nodes) != len(test.starts) - 1 or first != len(known.starts) - 1 or count > MOST_NODES:
        raise ValueError("the test nodes do not follow the others")
    rows: list[tuple[Array, Array]] = [known.row(number) for number in range(first)]
    rows += [(known.indices[:0], known.values[:0])] * (count - first)
    classes = np.full(count, -1, np.int64)
    classes[:first] = _classes(parts["ally"], name)
    of_test = _classes(parts["ty"], name)
    for number, node in enumerate(nodes):
        rows[node], classes[node] = test.row(number), of_test[number]
    train = len(_classes(parts["y"], name))
    masks = np.zeros((3, count), bool)
    masks[0, :train] = masks[1, train : train + VALIDATION] = masks[2, nodes] = True
    arrays = {
        "x_data": np.concatenate([values for _, values in rows]).astype(np.float32),
        "x_indices": np.concatenate([indices for indices, _ in rows]).astype(np.int32),
        "x_indptr": np.cumsum([0, *(len(indices) for indices, _ in rows)]).astype(np.int32),
        "x_shape": np.array([count, known.width], np.int64), "y": classes, "edges": _edges(parts["graph"], name),
        "train_mask": masks[0], "val_mask": masks[1], "test_mask": masks[2],
        "isolated": np.setdiff1d(np.arange(first, count), nodes).astype(np.int32),
    }  # fmt: skip
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    return packed.getvalue()


def _rows(contents: bytes, name: str) -> _Rows:
    """Return the rows of a sparse matrix of SciPy."""
    value = read_opcodes(contents, name)
    state: dict[str, Any] = value.state
    values, indices, starts = (read_array(state[key], name) for key in ("data", "indices", "indptr"))
    height, width = state["_shape"]
    ends = len(starts) == height + 1 and starts[0] == 0 and starts[-1] == len(indices) == len(values)
    if not ends or (np.diff(starts) < 0).any():
        raise ValueError("a sparse matrix contradicts its shape")
    return _Rows(values, indices, starts, width)


def _classes(contents: bytes, name: str) -> Array:
    """Return the class of each row of a one-hot matrix; -1 for a row of zeros."""
    table = read_array(read_opcodes(contents, name), name)
    return np.where(table.any(1), table.argmax(1), -1)


def _edges(contents: bytes, name: str) -> Array:
    """Return each undirected edge once, without loops, in order."""
    value = read_opcodes(contents, name)
    pairs = value.pairs if isinstance(value, PickledObject) else [*value.items()]
    if sum(len(neighbors) for _, neighbors in pairs) > MOST_EDGES:
        raise ValueError("the graph has too many edges")
    ends = [(min(node, other), max(node, other)) for node, neighbors in pairs for other in neighbors if node != other]
    return np.unique(np.array(ends, np.int32).reshape(-1, 2), axis=0)
