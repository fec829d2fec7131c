"""Series of frames, each with the same number of channels, such as sensor readings or spectra of sound."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.utils.rnn import pad_sequence

from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.field import EncodedRow, EncodedRows, FieldBase, Hidden, Padded, is_number_array
from regard.core.observation import SurfaceKind, SurfaceNumbers
from regard.core.task import Report, RunFiles
from regard.core.untrusted_files import parse_json, shortened
from regard.core.wording import pluralize
from regard.data.rows import Column, Row
from regard.errors import DataError

FILE, MAX_CHANNELS = "frames.json", 1 << 16
REMEDY = "write a list of frames, each a list of finite numbers of equal length: [[0.5, 1], [2, 0]]"


class FrameSeries(NamedTuple):
    """A value: the number of channels, and the numbers as float32 bytes; equal series have equal hashes."""

    channels: int
    numbers: bytes

    @property
    def frames(self) -> npt.NDArray[np.float32]:
        return np.frombuffer(self.numbers, np.float32).reshape(-1, self.channels)


class Frames(FieldBase):
    """Frames x, standardized per channel as (x − mean) / deviation of training; truncated to ``max_length`` frames."""

    reads_json = True
    kind: ClassVar[SurfaceKind] = "frames"
    hiding: ClassVar[str] = "replaced by the mean frame of the training data"

    def __init__(self, columns: tuple[Column, ...], *, max_length: int) -> None:
        self.columns, self.max_length = columns, max_length
        self.scale = np.zeros((2, 0))  # mean and deviation of each channel

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"channels": self.scale.shape[1]}

    def value(self, row: Row) -> FrameSeries:
        return self.accept(row.cells[self.columns[0]], row.where)

    def accept(self, value: Any, where: str | None = None) -> FrameSeries:
        series = value if isinstance(value, FrameSeries) else _series(value, where)
        if self.scale.size and series.channels != self.scale.shape[1]:
            what = f"the frames have {pluralize(series.channels, 'number')}"
            raise DataError(what, where=where, why=f"the model was trained on frames of {self.scale.shape[1]}")
        return series

    def is_value(self, value: Any) -> bool:
        return isinstance(value, FrameSeries) or is_number_array(value, 2)

    def parse(self, text: str) -> FrameSeries:
        try:
            return self.accept(parse_json(text))
        except ValueError as error:
            what = f"cannot parse frames from {shortened(text)!r}"
            raise DataError(what, why=f"not JSON: {error}", help=REMEDY) from error

    def text(self, value: FrameSeries) -> str:
        return json.dumps([[float(str(number)) for number in frame] for frame in value.frames])

    def summary(self, value: FrameSeries) -> str:
        return f"{pluralize(len(value.frames), 'frame')} of {pluralize(value.channels, 'number')}"

    def learn(self, run: RunFiles, values: Sequence[FrameSeries], log: Report) -> Frames:
        if run.config.start is not None:  # the weights of the other run expect its scale
            return self.open(run)
        widths = {value.channels: f"example {number}" for number, value in enumerate(values, start=1)}
        if len(widths) != 1:
            why = ", ".join(f"{example} has {width} numbers per frame" for width, example in widths.items())
            what = "the frames of the training data differ in length"
            raise DataError(what, where=run.config.data.train[0].name, why=why or "no frames exist")
        count = sum(len(value.frames) for value in values)
        mean = sum(value.frames.sum(0, dtype=np.float64) for value in values) / count
        variance = sum(np.square(value.frames - mean).sum(0) for value in values) / count
        self.scale = np.stack([mean, np.where(variance > 0, np.sqrt(variance), 1.0)])
        save_codec_file(run.tokenizers / FILE, self.scale.tolist())
        log(f"{count:,} frames of {pluralize(len(mean), 'number')}")
        return self

    def open(self, run: RunFiles) -> Frames:
        self.scale = open_codec_file(run.tokenizers / FILE, _saved_scale)
        return self

    def numbers(self, value: FrameSeries, row: EncodedRow) -> SurfaceNumbers:
        return SurfaceNumbers(value.frames[: len(row)])

    def hidden(self, value: FrameSeries, row: EncodedRow) -> list[list[Hidden | None]]:
        mean, hidden = self.scale[0].astype(np.float32), np.eye(len(row), len(value.frames), dtype=bool)[..., None]
        rows = [np.where(mask[: len(row)], np.float32(0), row) for mask in hidden]
        frames = [np.where(mask, mean, value.frames).tobytes() for mask in hidden]
        return [[*map(Hidden, rows, (FrameSeries(value.channels, numbers) for numbers in frames))]]

    def encode(self, values: Sequence[FrameSeries]) -> EncodedRows:
        series = [self.accept(value, f"example {number}").frames for number, value in enumerate(values, start=1)]
        (mean, deviation), end = self.scale, self.max_length
        rows = [((frames[:end] - mean) / deviation).astype(np.float32) for frames in series]
        return EncodedRows(rows, [len(frames) > end for frames in series])

    def pad(self, rows: Sequence[EncodedRow]) -> Padded:
        valid = pad_sequence([torch.ones(len(row), dtype=torch.bool) for row in rows], True)
        return Padded(pad_sequence([*map(torch.from_numpy, rows)], True), valid)

    def labels(self, row: EncodedRow) -> tuple[str, ...]:
        return tuple(str(position) for position in range(1, len(row) + 1))

    def cost(self, value: FrameSeries) -> int:
        return min(len(value.frames), self.max_length) ** 2


def _saved_scale(saved: Any) -> npt.NDArray[np.float64]:
    mean, deviation = scale = np.array(saved, np.float64)
    if mean.ndim != 1 or not 0 < len(mean) <= MAX_CHANNELS or not np.isfinite(scale).all() or (deviation <= 0).any():
        raise ValueError("each channel needs a finite mean and a deviation above 0")
    return scale


def _series(value: Any, where: str | None) -> FrameSeries:
    """Return an array or lists of numbers as a value. Raises DataError, with the position, for other input."""

    def refuse(why: str) -> DataError:
        return DataError("cannot parse frames", where=where, why=why, help=REMEDY)

    if isinstance(value, list | tuple):  # checked first: NumPy would allocate memory for texts
        if not all(isinstance(frame, list | tuple) and {*map(type, frame)} <= {int, float} for frame in value):
            raise refuse("it is not a list of lists of numbers")
        try:
            value = np.array(value, np.float64)
        except (OverflowError, ValueError) as error:
            raise refuse("the lists differ in length, or a number is too large") from error
    table = np.asarray(value)
    if table.dtype.kind not in "iuf" or table.ndim != 2 or not table.size or table.shape[1] > MAX_CHANNELS:
        raise refuse(f"it has the shape {table.shape} and the type {table.dtype}")
    with np.errstate(over="ignore"):  # reported as not finite
        numbers = np.ascontiguousarray(table, np.float32)
    if len(invalid := np.argwhere(~np.isfinite(numbers))):
        frame, channel = invalid[0].tolist()
        raise refuse(f"number {channel + 1} of frame {frame + 1} is {table[frame, channel]}, not finite in float32")
    return FrameSeries(table.shape[1], numbers.tobytes())
