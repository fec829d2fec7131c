"""Recordings with transcripts: a sound in a file, or its frames in an array, with its text and its speaker."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.untrusted_files import read_bytes
from regard.core.wording import describe_error
from regard.data.audio_files import Sound, read_sound
from regard.errors import DataError

MAX_BYTES = 1 << 30  # of a file with a sound

Frames = npt.NDArray[np.float32]


class Utterance(NamedTuple):
    """A recording as its files describe it.

    Attributes:
        where: the file and the line or example, for messages.
        text: the transcript; None if it is not known.
        frames: (frames, channels); None if the sound is in ``path``.
        path: the file of the sound; None if ``frames`` holds its frames.
        offset: first second of the sound in its file.
        duration: seconds of the sound; None: up to the end of its file.
        speaker: the name of the speaker; empty if it is not known.
    """

    where: str
    text: str | None
    frames: Frames | None = None
    path: Path | None = None
    offset: float = 0.0
    duration: float | None = None
    speaker: str = ""

    @property
    def key(self) -> str:
        """A text that selects the part of the recording: its speaker if known, since a speaker is in one part."""
        return self.speaker or self.identity

    @property
    def identity(self) -> str:
        """A text that determines the samples: the numbers, or the file with its size and time, and the range."""
        if self.frames is not None:
            return self.frames.tobytes().decode("latin-1")
        assert self.path is not None
        try:
            state = self.path.stat()
        except OSError as error:
            raise _unreadable(self.path, self.where, error) from error
        return f"{self.path}\0{state.st_size}\0{state.st_mtime_ns}\0{self.offset}\0{self.duration}"

    def sound(self, rate: int | None) -> Sound:
        """Read the sound from its file, at this number of samples per second.

        Raises:
            DataError: the file cannot be read, or the range is not inside the sound.
        """
        assert self.path is not None
        try:
            contents = read_bytes(self.path, MAX_BYTES)
        except (OSError, ValueError) as error:
            raise _unreadable(self.path, self.where, error) from error
        sound = read_sound(contents, str(self.path), rate=rate)
        first = round(self.offset * sound.rate)
        last = len(sound.samples) if self.duration is None else first + round(self.duration * sound.rate)
        if first >= len(sound.samples) or last > len(sound.samples) + sound.rate // 10:
            range_ = f"seconds {self.offset:g} to {last / sound.rate:g}"
            why = f"{self.path} has {sound.seconds:.2f} s, and the line names {range_}"
            raise DataError("the recording ends before the range", where=self.where, why=why)
        return sound._replace(samples=sound.samples[first:last])


def _unreadable(path: Path, where: str, error: Exception) -> DataError:
    if isinstance(error, FileNotFoundError):
        help = "paths in a list are relative to the folder of the list"
        return DataError("the sound does not exist", where=where, why=f"no file {path}", help=help)
    return DataError("cannot read the sound", where=where, why=f"{path}: {describe_error(error)}")
