"""Frames of recordings for the network: log-mel energies or given frames, standardized, and their relation to time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.task import RunFiles
from regard.core.wording import pluralize
from regard.data.audio_files import Sound, resample
from regard.data.log_mel import FRAME_RATE, LogMel, loud_range
from regard.data.utterance import Utterance
from regard.errors import DataError
from regard.tasks.recognition.data_config import RecognitionDataConfig
from regard.tasks.recognition.silence import wordless_frames, wordless_sound

FILE = "sound.json"
LEAST = 1e-3  # smallest deviation of a channel
LEAST_LOG = 0.7  # the same for log-mel energies, as in noise; divided by less, a pure tone would look like speech
MAX_CHANNELS, MAX_RATE = 1 << 16, 1e6
EXTRA = 1.2  # an output may have this factor of the highest rate of training, and EXTRA_PIECES more
EXTRA_PIECES = 8

Frames = npt.NDArray[np.float32]


class FrameScale(NamedTuple):
    """Mean and deviation of each channel, (channels,)."""

    mean: npt.NDArray[np.float64]
    deviation: npt.NDArray[np.float64]

    @classmethod
    def of(cls, frames: Iterable[Frames], least: float = LEAST) -> FrameScale:
        """Return the scale of all frames of recordings, at least one frame, with deviations of at least ``least``."""
        count, total, squares = 0, np.zeros(1), np.zeros(1)
        for part in frames:
            count, total = count + len(part), total + part.sum(0, dtype=np.float64)
            squares = squares + np.square(part, dtype=np.float64).sum(0)
        mean = total / count
        return cls(mean, np.sqrt(np.maximum(squares / count - np.square(mean), 0)).clip(least))

    def standardized(self, frames: Frames) -> Frames:
        return ((frames - self.mean) / self.deviation).astype(np.float32)


class Features:
    """Frames of recordings, and the rate at which texts have pieces.

    Attributes:
        frame_rate: frames per second.
        scale: mean and deviation of the training data.
        pieces_per_second: the highest rate of pieces, END included, in the training data.
    """

    def __init__(self, data: RecognitionDataConfig) -> None:
        self.data, self.options = data, data.sound
        self.recipe = LogMel(data.sound.rate, data.sound.channels)
        self.frame_rate = FRAME_RATE if data.input == "audio" else data.frame_rate
        self.scale = FrameScale(np.zeros(0), np.zeros(0))
        self.pieces_per_second = 0.0

    @property
    def channels(self) -> int:
        """Numbers of a frame."""
        return len(self.scale.mean)

    def raw(self, recording: Utterance, speed: float = 1.0) -> Frames:
        """Return the frames of a recording before they are standardized, read at this speed."""
        if recording.frames is not None:
            return stretched(recording.frames, speed)
        return self.of_sound(recording.sound(self.options.rate), recording.where, speed)

    def of_sound(self, sound: Sound, name: str, speed: float = 1.0) -> Frames:
        """Return the log-mel frames of a sound at the rate of the run, trimmed if the run trims."""
        return self.trimmed(sound, name, speed)[0]

    def trimmed(self, sound: Sound, name: str, speed: float = 1.0) -> tuple[Frames, int]:
        """Return the log-mel frames of a sound, and the number of silent ones that were removed before them."""
        samples = resample(sound.samples, sound.rate * speed, self.options.rate, name) if speed != 1 else sound.samples
        frames = self.recipe.frames(samples)
        if self.options.trim is None:
            return frames, 0
        first, last = loud_range(samples, self.recipe, self.options.trim)
        return frames[first:last], first

    def require(self, frames: Frames, where: str | None) -> Frames:
        """Return the frames of an input; raise DataError if the model was trained on others."""
        self.require_channels(frames, where)
        if not np.isfinite(frames).all():
            raise DataError("a number of the frames is not finite", where=where)
        return frames

    def require_channels(self, frames: Frames, where: str | None) -> None:
        """Raise DataError unless frames have the shape of those that the model was trained on."""
        if frames.ndim != 2 or not len(frames) or frames.shape[1] != self.channels:
            what = f"cannot recognize frames of shape {list(frames.shape)}"
            why = f"the model was trained on frames of {pluralize(self.channels, 'number')}"
            raise DataError(what, where=where, why=why)

    def standardized(self, frames: Frames, speaker: FrameScale | None = None) -> Frames:
        """Return frames by the normalization of the run.

        ``speaker``: scale of the speaker; None: unknown, and the scale of the recording is used in its place.
        """
        kind = self.options.normalization
        scale = self.scale if kind == "corpus" else speaker or self.scale_of([frames])
        return scale.standardized(frames)

    def scale_of(self, frames: Iterable[Frames]) -> FrameScale:
        """Return the scale of all frames of recordings."""
        return FrameScale.of(frames, LEAST_LOG if self.data.input == "audio" else LEAST)

    def wordless(self, length: int, random: np.random.Generator) -> Frames:
        """Return standardized frames (length, channels) of a recording without words of an unknown speaker."""
        if self.data.input == "frames":
            return wordless_frames(length, self.channels, random)
        samples = wordless_sound(self.recipe.samples(length), self.options.rate, random)
        return self.standardized(self.recipe.frames(samples)[:length])

    def learn(self, frames: Sequence[Frames], pieces: Sequence[int], run: RunFiles) -> None:
        """Learn the scale and the rate of pieces from training recordings, and save them."""
        self.scale = self.scale_of(frames)
        rates = [(count + 1) * self.frame_rate / len(part) for part, count in zip(frames, pieces, strict=True)]
        self.pieces_per_second = max(rates)
        saved = {"scale": [part.tolist() for part in self.scale], "pieces_per_second": self.pieces_per_second}
        save_codec_file(run.tokenizers / FILE, saved)

    def open(self, run: RunFiles) -> Features:
        """Open the saved scale; raise ModelError if it is missing or damaged."""
        self.scale, self.pieces_per_second = open_codec_file(run.tokenizers / FILE, _parsed)
        return self

    def limit(self, frames: int) -> int:
        """Return the maximum number of pieces, END included, of the text of a number of frames."""
        return int(EXTRA * self.pieces_per_second * frames / self.frame_rate) + EXTRA_PIECES


def stretched(frames: Frames, speed: float) -> Frames:
    """Return frames read at a speed, by linear interpolation between neighbors: length / speed frames."""
    if speed == 1:
        return frames
    positions = np.linspace(0, len(frames) - 1, max(round(len(frames) / speed), 1))
    first = np.minimum(positions.astype(np.int64), max(len(frames) - 2, 0))
    share = (positions - first)[:, None].astype(np.float32)
    following = np.minimum(first + 1, len(frames) - 1)
    return np.asarray((1 - share) * frames[first] + share * frames[following], np.float32)


def _parsed(saved: Any) -> tuple[FrameScale, float]:
    scale, rate = np.array(saved["scale"], np.float64), float(saved["pieces_per_second"])
    mean, deviation = scale
    if mean.ndim != 1 or not 0 < len(mean) <= MAX_CHANNELS or not np.isfinite(scale).all() or (deviation <= 0).any():
        raise ValueError("each channel needs a finite mean and a deviation above 0")
    if not 0 < rate <= MAX_RATE:
        raise ValueError("the rate of pieces must be a number above 0")
    return FrameScale(mean, deviation), rate
