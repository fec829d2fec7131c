"""Recordings as frames in a .npz: ``frames``, ``offsets`` and ``text``, optional ``speaker`` and ``name``.

``frames`` (frames, channels) holds the concatenated recordings, ``offsets`` (recordings + 1,) the start of each and the
end of the last one. The names may have a prefix for each part: ``train_frames``, ``test_frames``, …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.core.wording import pluralize
from regard.data.column_names import PARTS
from regard.data.foreign_errors import foreign_errors
from regard.data.npz_files import read_arrays
from regard.data.utterance import Utterance
from regard.errors import DataError

FRAMES, OFFSETS, TEXT, SPEAKER = "frames", "offsets", "text", "speaker"
HELP = "docs/how-to/recognize-speech.md"


def array_parts(names: Sequence[str]) -> dict[str, str]:
    """Return the prefix of the arrays of each part, by the name of the part; {} for arrays without prefixes."""
    prefixes = [name.removesuffix(FRAMES) for name in names if name.endswith(f"_{FRAMES}")]
    return {part: prefix for prefix in prefixes if (part := PARTS.get(prefix.removesuffix("_").lower())) is not None}


def holds_transcripts(names: Sequence[str]) -> bool:
    """Return whether a .npz with these arrays has recordings with transcripts."""
    prefixes = ["", *array_parts(names).values()]
    return any({f"{prefix}{name}" for name in (FRAMES, OFFSETS, TEXT)} <= {*names} for prefix in prefixes)


def read_recording_arrays(path: Path, prefix: str | None, *, labeled: bool) -> Iterator[Utterance]:
    """Yield the recordings of a .npz.

    Args:
        path: the file.
        prefix: of the names of its arrays; None: no prefix, or that of the test part.
        labeled: whether each recording must have a text.

    Raises:
        DataError: an array is missing or does not fit the others.
    """
    arrays = read_arrays(path)
    if prefix is None:
        prefix = "" if FRAMES in arrays else array_parts([*arrays]).get("test", "")
    frames = _array(arrays, f"{prefix}{FRAMES}", "f", 2, path)
    offsets = _array(arrays, f"{prefix}{OFFSETS}", "iu", 1, path).astype(np.int64)
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(frames) or (np.diff(offsets) <= 0).any():
        wrong = np.flatnonzero(np.diff(offsets) <= 0)[:1].tolist()
        why = f"expected rising numbers from 0 to {len(frames):,}, one for each recording and the end"
        why += f"; recording {wrong[0] + 1} has no frames" if wrong else ""
        raise DataError(f"the array {prefix}{OFFSETS} does not match the frames", where=str(path), why=why, help=HELP)
    texts = _texts(arrays, f"{prefix}{TEXT}", len(offsets) - 1, path, required=labeled)
    speakers = _texts(arrays, f"{prefix}{SPEAKER}", len(offsets) - 1, path, required=False)
    for number, (start, end) in enumerate(pairwise(offsets.tolist())):
        numbers = np.ascontiguousarray(frames[start:end], np.float32)
        where = f"{path}:{number + 1}"
        if not np.isfinite(numbers).all():
            frame, channel = (int(index) for index in np.argwhere(~np.isfinite(numbers))[0])
            why = f"number {channel + 1} of frame {frame + 1} is not finite"
            raise DataError("cannot read the frames of a recording", where=where, why=why)
        text, speaker = (column[number] if column else None for column in (texts, speakers))
        yield Utterance(where, text, frames=numbers, speaker=speaker or "")


def _array(arrays: Mapping[str, npt.NDArray[Any]], name: str, kinds: str, dimensions: int, path: Path) -> Any:
    array = arrays.get(name)
    if array is None:
        why = f"the arrays of the file are {', '.join(arrays)}" if arrays else "the file has no arrays"
        raise DataError(f"the array {name} is missing", where=str(path), why=why, help=HELP)
    if array.dtype.kind not in kinds or array.ndim != dimensions:
        expected = {"f": "floats", "iu": "integers", "U": "texts"}[kinds]
        why = f"expected {expected} with {pluralize(dimensions, 'dimension')}, it is {array.dtype} {list(array.shape)}"
        raise DataError(f"the array {name} has the wrong type or shape", where=str(path), why=why, help=HELP)
    return array


def _texts(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, recordings: int, path: Path, *, required: bool
) -> list[str]:  # fmt: skip
    """Return the texts of an array, one for each recording; [] if it is missing and not required."""
    if name not in arrays and not required:
        return []
    array = _array(arrays, name, "U", 1, path)
    if len(array) != recordings:
        what = f"the array {name} has {pluralize(len(array), 'text')} for {pluralize(recordings, 'recording')}"
        raise DataError(what, where=str(path), help=HELP)
    with foreign_errors(f"the array {name} is damaged", path):
        cells = [str(cell) for cell in array.tolist()]
        "".join(cells).encode()
    return cells
