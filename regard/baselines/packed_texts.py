"""Texts as arrays, for the files of baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt


def packed_texts(name: str, texts: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Return texts as the bytes of all of them in UTF-8, and where each begins."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(encoded), np.uint8), f"{name}.starts": starts}


def unpacked_texts(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> list[str]:
    """Return packed texts; ValueError if they are damaged."""
    packed, starts = arrays[f"{name}.bytes"], arrays[f"{name}.starts"].astype(np.int64)
    if packed.dtype != np.uint8 or packed.ndim != 1 or starts.ndim != 1 or not divides(starts, len(packed)):
        raise ValueError(f"the texts {name} are incomplete")
    whole = packed.tobytes()
    return [whole[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(starts)]


def divides(starts: npt.NDArray[np.int64], length: int) -> bool:
    """Return whether ascending positions divide an array of this length."""
    return bool(len(starts) and starts[0] == 0 and starts[-1] == length and (np.diff(starts) >= 0).all())
