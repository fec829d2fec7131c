"""The recordings of the files of a config, and their frames on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.task import ProgressCallback, Report
from regard.core.wording import pluralize
from regard.data.audio_files import Sound, conversion_reports
from regard.data.file_names import named_files
from regard.data.frame_store import FrameStore, open_or_write_frames
from regard.data.rows import form_of
from regard.data.shared_files import falls_into
from regard.data.utterance import Utterance
from regard.data.utterance_arrays import read_recording_arrays
from regard.data.utterance_lists import read_folder, read_list
from regard.errors import DataError
from regard.tasks.recognition.data_config import RecordingFiles
from regard.tasks.recognition.features import Features

Frames = npt.NDArray[Any]


def read_recordings(corpora: Sequence[RecordingFiles], *, labeled: bool = True) -> Iterator[Utterance]:
    """Yield the recordings of files; a share is selected by the speaker, or by the recording without one."""
    for corpus in corpora:
        for path in named_files(corpus.source):
            for recording in _recordings_of(path, corpus.arrays, labeled=labeled):
                if falls_into(recording.key, corpus.share):
                    yield recording


def _recordings_of(path: Path, arrays: str | None, *, labeled: bool) -> Iterator[Utterance]:
    if path.is_dir():
        return read_folder(path, labeled=labeled)
    if form_of(path) == "npz":
        return read_recording_arrays(path, arrays, labeled=labeled)
    return read_list(path, labeled=labeled)


class StoredFrames(NamedTuple):
    """Frames of recordings at each speed: row ``index · speeds + speed``."""

    rows: Sequence[Frames] | FrameStore
    speeds: int

    def at(self, index: int, speed: int = 0) -> Frames:
        """Return the frames of a recording; speed 0 is the original one."""
        return self.rows[index * self.speeds + speed]


def store_frames(
    recordings: Sequence[Utterance], features: Features, folder: Path, speeds: Sequence[float], log: Report,
    progress: ProgressCallback | None = None,
) -> StoredFrames:  # fmt: skip
    """Compute the frames of recordings, or open them in ``folder``; frames of arrays stay in memory.

    Raises:
        DataError: a sound cannot be read.
    """
    if all(recording.frames is not None for recording in recordings):
        rows = [features.raw(recording, speed) for recording in recordings for speed in speeds]
        return StoredFrames(rows, len(speeds))
    converted: list[Sound] = []

    def computed() -> Iterator[Frames]:
        for recording in recordings:
            if recording.frames is not None:
                raise DataError("frames and sounds cannot be combined", where=recording.where)
            sound = recording.sound(features.options.rate)
            converted.append(sound._replace(samples=np.zeros(0, np.float32)))
            for speed in speeds:
                yield features.of_sound(sound, recording.where, speed)
            if progress is not None:
                progress(1)

    store = open_or_write_frames(
        folder, computed(), [recording.where for recording in recordings for _ in speeds],
        recipe=f"{features.recipe.name}, speeds {[*speeds]}, trim {features.options.trim}",
        channels=features.options.channels, frame_rate=features.frame_rate,
        identities=(recording.identity for recording in recordings),
    )  # fmt: skip
    for line in conversion_reports(converted):
        log(line)
    return StoredFrames(store, len(speeds))


def seconds_report(name: str, frames: Sequence[Frames], rate: float, speakers: int) -> str:
    """Return a line about the recordings of a part."""
    seconds = sum(map(len, frames)) / rate
    of = f" of {pluralize(speakers, 'speaker')}" if speakers else ""
    length = f"{seconds / 3600:.1f} hours" if seconds >= 7200 else f"{seconds / 60:.1f} minutes"
    return f"{name}: {pluralize(len(frames), 'recording')}{of}, {length}"
