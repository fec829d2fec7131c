"""Recordings with labels and speakers: from a folder for each class, a table of paths, or a .npz file.

A .npz file has the arrays ``samples`` (samples,), int16 or floats from −1 to 1, the concatenated recordings;
``offsets`` (recordings + 1,); ``label`` (recordings,); and, if the speakers are known, ``speaker`` (recordings,). Its
rate is that of the config.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.data.audio_files import SUFFIXES
from regard.data.column_names import part_of
from regard.data.labeled_files import LabeledFile, read_class_folders, read_contents, read_file_table
from regard.data.npz_examples import example_bounds, example_cells, typed_array
from regard.data.npz_files import read_arrays
from regard.data.recordings import Recording, SoundFeatures
from regard.data.rows import Part, form_of
from regard.data.wav_files import write_wav
from regard.errors import DataError

LABEL, SPEAKER, SAMPLES = "label", "speaker", "samples"


class SpokenExample(NamedTuple):
    """A recording with its label, its speaker, and its file and row."""

    recording: Recording
    label: str | None
    speaker: str | None
    path: Path
    number: int

    @property
    def split_key(self) -> str:
        """The text by whose hash examples are divided into parts: a speaker is in one part only."""
        return self.recording.identity if self.speaker is None else self.speaker


def read_spoken(
    data: Any, path: Path, features: SoundFeatures, *, labeled: bool, part: Part | None = None
) -> Iterator[SpokenExample]:
    """Yield the recordings of a folder, a table or a .npz file. DataError, with the place, if one cannot be read."""
    if form_of(path) == "npz":
        yield from _npz_examples(path, features, labeled=labeled, part=part)
        return
    label = data.label if data is not None and isinstance(data.label, str) else None
    files: Iterator[LabeledFile]
    if path.is_dir():
        files = read_class_folders(path, SUFFIXES)
    else:
        files = read_file_table(path, label=label, labeled=labeled, part=part)
    for number, file in enumerate(files, start=1):
        contents = read_contents(file)
        recording = features.recording(contents, str(file.path))
        recording.contents = partial(read_contents, file)  # read again when it is used: a corpus may exceed memory
        yield SpokenExample(recording, file.label, file.speaker, file.path, number)


def _npz_examples(path: Path, features: SoundFeatures, *, labeled: bool, part: Part | None) -> Iterator[SpokenExample]:
    arrays = read_arrays(path)
    samples = typed_array(arrays, SAMPLES, "if", 1, path)
    if samples.dtype not in (np.int16, np.float32, np.float64):
        raise DataError(f"the array {SAMPLES} has the type {samples.dtype}", where=str(path), why="expected int16")
    bounds = example_bounds(arrays, SAMPLES, len(samples), path)
    names = [*([LABEL] if labeled else []), *([SPEAKER] if SPEAKER in arrays else []), *(part[:1] if part else ())]
    cells = {name: example_cells(arrays, name, len(bounds) - 1, path) for name in names}
    for place, (start, end) in enumerate(pairwise(bounds.tolist())):
        where, texts = f"{path}:{place + 1}", {name: cells[name][place] for name in names}
        if part is None or part_of(texts[part[0]], where) == part[1]:
            contents = partial(write_wav, samples[start:end], features.options.rate)
            recording = features.recording(contents(), where)
            recording.contents = contents
            yield SpokenExample(recording, texts.get(LABEL), texts.get(SPEAKER), path, place + 1)
