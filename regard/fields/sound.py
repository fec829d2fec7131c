"""Recordings as log-mel frames; silent ends, speeds and masks follow the options of ``data.sound``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.field import EncodedRow, EncodedRows, FieldBase, Hidden, Padded, VisitDraws
from regard.core.observation import SurfaceKind, SurfaceNumbers
from regard.core.task import Report, RunFiles
from regard.data.audio_files import SUFFIXES
from regard.data.frame_augmentation import augment_frames
from regard.data.log_mel import FRAME_RATE, STEP, UNIT
from regard.data.recordings import (
    ChangedFrames,
    KnownScale,
    Moments,
    Recording,
    Scale,
    SoundFeatures,
    as_recording,
    checked_scale,
    joined_scale,
    parse_recording,
    recording_line,
)
from regard.data.rows import Column, Row
from regard.data.sound_options import SoundOptions

FILE = "sound.json"
SPEED, MASKS = 0, 1  # streams of draws


class Sounds(FieldBase):
    """Recordings as frames x, standardized per channel as (x − mean) / deviation of training.

    A row holds frames before this last step, often in a file that is mapped to memory; ``parts`` has the numbers that
    a network reads. Rows have at most ``max_length`` frames.
    """

    reads_json = True
    kind: ClassVar[SurfaceKind] = "frames"
    hiding: ClassVar[str] = "replaced by the mean frame of the training data"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    contents: ClassVar[Literal["audio"]] = "audio"

    def __init__(self, columns: tuple[Column, ...], options: SoundOptions, *, max_length: int) -> None:
        self.columns, self.options, self.max_length = columns, options, max_length
        self.features = SoundFeatures(options)  # of inputs other than training data
        self.scale: Scale = np.zeros((2, options.channels))
        self.unknown_speaker: KnownScale | None = None

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"channels": self.options.channels}

    def value(self, row: Row) -> Recording:
        recording: Any = row.cells[self.columns[0]]
        return self.accept(recording, row.where)

    def accept(self, value: Any, where: str | None = None) -> Recording:
        recording = as_recording(value, where, self.features)
        return recording if self.unknown_speaker is None else recording.of_speaker(self.unknown_speaker)

    def is_value(self, value: Any) -> bool:
        return isinstance(value, bytes | Recording)

    def parse(self, text: str) -> Recording:
        return self.accept(parse_recording(text, self.features))

    def read_file(self, contents: bytes, name: str) -> Recording:
        return self.accept(self.features.recording(contents, name))

    def text(self, value: Recording) -> str:
        return recording_line(value)

    def summary(self, value: Recording) -> str:
        return f"{value.name}, {len(value.frames) * STEP:.2f} s"

    def store(self, folder: Path, values: Sequence[Recording], log: Report) -> None:
        values[0].features.store(folder, values)
        for line in values[0].features.conversions():
            log(line)

    def learn(self, run: RunFiles, values: Sequence[Recording], log: Report) -> Sounds:
        if run.config.start is not None:  # the weights of the other run expect its scale
            return self.open(run)
        count = self.options.channels
        saved = {"scale": Moments.of((value.frames for value in values), count).scale.tolist()}
        if self.options.normalization == "speaker":
            saved["unknown_speaker"] = joined_scale(values).tolist()
        save_codec_file(run.tokenizers / FILE, saved)
        return self.open(run)

    def open(self, run: RunFiles) -> Sounds:
        def parse(saved: Any) -> list[Scale]:
            return [checked_scale(scale, self.options.channels) for scale in saved.values()]

        self.scale, *unknown = open_codec_file(run.tokenizers / FILE, parse)
        self.unknown_speaker = KnownScale(*unknown) if unknown else None
        return self

    def encode(self, values: Sequence[Recording]) -> EncodedRows:
        tables = [self.accept(value).frames for value in values]
        return EncodedRows([table[: self.max_length] for table in tables], [len(t) > self.max_length for t in tables])

    def variants(self, values: Sequence[Recording]) -> list[list[EncodedRow]]:
        return [
            [value.features.frames(value, speed)[: self.max_length] for speed in value.features.speeds[1:]]
            for value in values
        ]

    def augment(self, rows: Sequence[EncodedRow], draws: VisitDraws) -> EncodedRow:
        if not draws.visit:
            return rows[0]
        first = int(1.0 not in self.options.speeds)
        row = rows[int(draws.stream(SPEED).integers(first, len(rows)))]
        return augment_frames(row, self.scale[0].astype(np.float32), self.options, draws.stream(MASKS))

    def parts(self, row: EncodedRow) -> list[EncodedRow]:
        mean, deviation = self.scale.astype(np.float32)
        return [(row - mean) / deviation]

    def pad(self, rows: Sequence[EncodedRow]) -> Padded:
        valid = pad_sequence([torch.ones(len(row), dtype=torch.bool) for row in rows], True)
        tables = [torch.from_numpy(part) for row in rows for part in self.parts(row)]
        return Padded(pad_sequence(tables, True), valid)

    def hidden(self, value: Recording, row: EncodedRow) -> list[list[Hidden | None]]:
        masks = np.eye(len(row), len(value.frames), dtype=bool)[..., None]
        changed = (np.where(mask, self.scale[0].astype(np.float32), value.frames) for mask in masks)
        return [[Hidden(frames[: len(row)], ChangedFrames(frames)) for frames in changed]]

    def numbers(self, value: Recording, row: EncodedRow) -> SurfaceNumbers:
        unit = UNIT if self.options.normalization == "corpus" else f"{UNIT}, standardized"
        names = tuple(f"{center:,.0f} Hz" for center in self.features.recipe.centers)
        return SurfaceNumbers(value.frames[: len(row)], names, unit, FRAME_RATE)

    def labels(self, row: EncodedRow) -> tuple[str, ...]:
        return tuple(f"{place * STEP:.2f} s" for place in range(len(row)))

    def cost(self, value: Recording) -> int:
        return min(len(value.frames), self.max_length) ** 2
