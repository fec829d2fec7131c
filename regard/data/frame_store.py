"""Frames of recordings on disk, read through a memory map: a large corpus is neither in memory nor computed again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from regard.core.wording import pluralize
from regard.data.prepared import PreparedFolder, PreparedHead, replacing_folder
from regard.data.ragged import Ragged, RaggedWriter
from regard.errors import DataError

FloatType = Literal["<f2", "<f4"]
VALUES, OFFSETS = "frames", "offsets"  # names of the files
MAX_CHANNELS = 1 << 16


class FrameHead(PreparedHead):
    """The head of a folder of frames.

    Attributes:
        channels: numbers of a frame.
        frame_rate: frames per second; 0 if they are not at equal distances in time.
        recipe: the name of the features.
    """

    channels: int = Field(ge=1, le=MAX_CHANNELS)
    frame_rate: float = Field(ge=0, allow_inf_nan=False)
    recipe: str


class FrameStore(PreparedFolder):
    """An opened folder of frames: a sequence of arrays (frames, channels), one for each recording.

    Opening checks the sizes of the files, and reads no frame. A row is a read-only view of the file.
    """

    file: ClassVar[str] = "frames.json"
    format: ClassVar[dict[str, Any]] = {"format": "regard-frames", "version": 1}
    head_type: ClassVar[type[PreparedHead]] = FrameHead

    def __init__(self, folder: Path, head: FrameHead) -> None:
        super().__init__(folder, head)
        self.channels, self.frame_rate, self.recipe = head.channels, head.frame_rate, head.recipe
        self.rows = Ragged.open(
            folder / VALUES, folder / OFFSETS, head.array(VALUES), dtypes=("<f2", "<f4"), shape=(head.channels,)
        )
        self._numbers.append(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        return self.rows[index]

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return iter(self.rows)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of frames of each recording, (recordings,)."""
        return self.rows.lengths


def open_or_write_frames(
    folder: Path,
    recordings: Iterable[npt.NDArray[Any]],
    names: Sequence[str],
    *,
    recipe: str,
    channels: int,
    frame_rate: float,
    identities: Iterable[str] = (),
    dtype: FloatType = "<f4",
) -> FrameStore:
    """Open ``folder`` if it has the frames of these recordings, intact; otherwise compute and write them.

    Memory holds one recording at a time. The folder is written completely or not at all.

    Args:
        folder: the folder, which is replaced if it does not fit.
        recordings: yields the frames (frames, channels) of each recording; not read if the folder fits.
        names: of the recordings, for messages.
        recipe: determines the frames of a recording.
        channels: numbers of a frame.
        frame_rate: frames per second; 0 if they are not at equal distances in time.
        identities: a text for each recording that determines its samples.
        dtype: the type of the numbers on disk.

    Raises:
        DataError: a frame has another number of channels, or a number that is not finite in ``dtype``.
        StorageError: the folder cannot be written.
    """
    expected = _fingerprint(recipe, channels, frame_rate, dtype, identities)
    if store := FrameStore.reopen(folder, expected):
        return store
    with replacing_folder(folder) as temporary:
        with RaggedWriter(temporary / VALUES, temporary / OFFSETS, dtype, (channels,)) as writer:
            for name, frames in zip(names, recordings, strict=True):
                writer.append_values(_checked(frames, name, channels, frame_rate, dtype))
        head = FrameHead(
            name=names[0] if names else "", fingerprint=expected, arrays={VALUES: writer.head}, channels=channels,
            frame_rate=frame_rate, recipe=recipe,
        )  # fmt: skip
        FrameStore.write_head(temporary, head)
    return FrameStore.open(folder)


def _fingerprint(recipe: str, channels: int, frame_rate: float, dtype: str, identities: Iterable[str]) -> str:
    digest = hashlib.sha256(json.dumps([recipe, channels, frame_rate, dtype]).encode())
    for identity in identities:
        digest.update(b"\0" + identity.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _checked(
    frames: npt.NDArray[Any], name: str, channels: int, frame_rate: float, dtype: FloatType
) -> npt.NDArray[Any]:
    """Return frames as they are written. DataError, with recording and second, if a number is not finite."""
    if frames.ndim != 2 or frames.shape[1] != channels:
        raise DataError(
            f"the frames have the shape {list(frames.shape)}", where=name,
            why=f"expected frames of {pluralize(channels, 'number')}",
        )  # fmt: skip
    with np.errstate(over="ignore"):  # reported as not finite
        numbers = frames.astype(dtype)
    finite = np.isfinite(numbers)
    if not finite.all():
        frame, channel = (int(index) for index in np.argwhere(~finite)[0])
        place = f"at {frame / frame_rate:.2f} s" if frame_rate else f"of frame {frame + 1}"
        why = f"channel {channel + 1} {place} is {frames[frame, channel]}, not finite in {np.dtype(dtype).name}"
        raise DataError("the frames of the recording cannot be stored", where=name, why=why)
    return numbers
