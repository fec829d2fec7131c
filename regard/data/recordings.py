"""Recordings as values of examples: their contents are read, and their frames computed, when they are used."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.codec_files import MALFORMED
from regard.core.untrusted_files import json_value
from regard.core.wording import describe_error
from regard.data.audio_files import Sound, conversion_reports, read_sound, resample
from regard.data.base64_contents import decode_base64
from regard.data.frame_store import FrameStore, open_or_write_frames
from regard.data.log_mel import FRAME_RATE, FrameTable, LogMel, loud_range
from regard.data.sound_options import SoundOptions
from regard.errors import DataError

REMEDY = 'the contents of a WAV, FLAC, OGG or MP3 file in base64: {"audio": "UklGR…"}'
Scale = npt.NDArray[np.float64]  # (2, channels): mean and deviation of each channel


class Moments(NamedTuple):
    """Sums over frames, from which mean and deviation follow: their number, and x and x² of each channel."""

    frames: int
    total: npt.NDArray[np.float64]
    squares: npt.NDArray[np.float64]

    @classmethod
    def of(cls, tables: Iterable[FrameTable], channels: int) -> Moments:
        """Return the sums over the frames of several tables."""
        count, sums = 0, np.zeros((2, channels))
        for table in tables:
            frames = table.astype(np.float64)
            count, sums = count + len(frames), sums + np.stack([frames.sum(0), np.square(frames).sum(0)])
        return cls(count, *sums)

    @classmethod
    def joined(cls, parts: Sequence[Moments]) -> Moments:
        """Return the sums over the frames of all parts."""
        counts, totals, squares = zip(*parts, strict=True)
        return cls(sum(counts), np.sum(totals, 0), np.sum(squares, 0))

    @property
    def scale(self) -> Scale:
        """Mean and deviation of each channel; the deviation of a constant channel is 1."""
        mean = self.total / self.frames
        variance = self.squares / self.frames - np.square(mean)
        return np.stack([mean, np.where(variance > 1e-9, np.sqrt(np.maximum(variance, 0)), 1.0)])


class Speaker:
    """A speaker, whose recordings have a common scale."""

    def __init__(self) -> None:
        self.recordings = list[Recording]()

    @cached_property
    def moments(self) -> Moments:
        """The sums over all frames of the speaker's recordings, before they are standardized."""
        features = self.recordings[0].features
        tables = (features.log_mel(recording) for recording in self.recordings)
        return Moments.of(tables, features.recipe.channels)

    @cached_property
    def scale(self) -> Scale:
        return self.moments.scale

    @property
    def identity(self) -> str:
        """A text that determines the scale."""
        return hashlib.sha256("".join(recording.identity for recording in self.recordings).encode()).hexdigest()


class KnownScale(NamedTuple):
    """The scale of a speaker whose recordings are not at hand."""

    scale: Scale

    @property
    def identity(self) -> str:
        return hashlib.sha256(self.scale.tobytes()).hexdigest()


class Recording:
    """A recording. Recordings with equal contents and equal scales are equal.

    Attributes:
        identity: a digest of the contents.
        name: for messages.
        contents: returns the bytes of its file.
        features: computes its frames.
        speaker: has the scale by which its frames are standardized; None if they are not, or by their own.
    """

    def __init__(
        self,
        identity: str,
        name: str,
        contents: Callable[[], bytes],
        features: SoundFeatures,
        speaker: Speaker | KnownScale | None = None,
    ) -> None:
        self.identity, self.name, self.contents = identity, name, contents
        self.features, self.speaker = features, speaker

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recording) or self.identity != other.identity:
            return False
        own, its = self.scale, other.scale
        return own is its or (own is not None and its is not None and np.array_equal(own, its))

    def __hash__(self) -> int:
        return hash(self.identity)

    def of_speaker(self, speaker: KnownScale) -> Recording:
        """Return the recording with the scale of a speaker, unless it has one."""
        if self.speaker is not None:
            return self
        return Recording(self.identity, self.name, self.contents, self.features, speaker)

    @property
    def scale(self) -> Scale | None:
        return None if self.speaker is None else self.speaker.scale

    @cached_property
    def frames(self) -> FrameTable:
        """The frames (frames, channels) that a model reads, before they are standardized by its training data."""
        return self.features.frames(self)


class ChangedFrames(NamedTuple):
    """The frames of a recording of which some are replaced, for a baseline."""

    frames: FrameTable


class SoundFeatures:
    """The frames of recordings, by the options of a config: computed, or read from a store of the run."""

    def __init__(self, options: SoundOptions) -> None:
        self.options, self.recipe = options, LogMel(options.rate, options.channels)
        self.speeds = (1.0, *dict.fromkeys(speed for speed in options.speeds if speed != 1))
        self._conversions = dict[str, Sound]()
        self._store: FrameStore | None = None
        self._places: Mapping[Recording, int] = {}

    def recording(self, contents: bytes, name: str) -> Recording:
        """Return the recording in the bytes of a file."""
        return Recording(hashlib.sha256(contents).hexdigest(), name, lambda: contents, self)

    def log_mel(self, recording: Recording, speed: float = 1.0) -> FrameTable:
        """Return the frames of a recording, read at a speed, without silent ends, before they are standardized."""
        rate, trim = self.options.rate, self.options.trim
        sound = read_sound(recording.contents(), recording.name)
        self._conversions[recording.identity] = sound._replace(samples=sound.samples[:0], rate=rate)
        samples = resample(sound.samples, sound.rate * speed, rate, recording.name)
        frames = self.recipe.frames(samples)
        first, end = (0, len(frames)) if trim is None else loud_range(samples, self.recipe, trim)
        return frames[first:end]

    def frames(self, recording: Recording, speed: float = 1.0) -> FrameTable:
        """Return the frames of a recording, standardized by the scale of its speaker, or by its own."""
        place = self._places.get(recording)
        if place is not None and self._store is not None:
            return self._store[place * len(self.speeds) + self.speeds.index(speed)]
        return self._computed(recording, speed)

    def _computed(self, recording: Recording, speed: float) -> FrameTable:
        frames, scale = self.log_mel(recording, speed), recording.scale
        if self.options.normalization == "recording":
            scale = Moments.of([frames], self.recipe.channels).scale
        return frames if scale is None else ((frames - scale[0]) / scale[1]).astype(np.float32)

    def store(self, folder: Path, recordings: Sequence[Recording]) -> None:
        """Keep the frames of these recordings at all speeds in a folder; use those that an earlier call wrote there.

        Raises:
            DataError: a recording cannot be read, or has a number that is not finite.
            StorageError: the folder cannot be written.
        """
        facts = [self.options.trim, self.options.normalization, self.speeds]
        store = open_or_write_frames(
            folder,
            (self._computed(recording, speed) for recording in recordings for speed in self.speeds),
            [recording.name for recording in recordings for _ in self.speeds],
            recipe=f"{self.recipe.name}, {json.dumps(facts)}",
            channels=self.recipe.channels,
            frame_rate=FRAME_RATE,
            identities=[_identity(recording) for recording in recordings],
        )
        self._store, self._places = store, {recording: place for place, recording in enumerate(recordings)}
        for recording in recordings:
            recording.features = self

    def conversions(self) -> list[str]:
        """Return a line for each way in which the recordings read so far were converted."""
        return conversion_reports(self._conversions.values())


def _identity(recording: Recording) -> str:
    return recording.identity + ("" if recording.speaker is None else recording.speaker.identity)


def recording_line(recording: Recording) -> str:
    """Return the line of JSON of a recording: {"audio": BASE64}, and the ``scale`` of its speaker, if it has one."""
    scale = {} if recording.scale is None else {"scale": recording.scale.tolist()}
    return json.dumps({"audio": base64.b64encode(recording.contents()).decode(), **scale})


def parse_recording(text: str, features: SoundFeatures) -> Recording:
    """Return the recording of a line. Raises DataError for another line; a path in it is never opened."""
    value = json_value(text)
    if not isinstance(value, dict) or not {"audio"} <= value.keys() <= {"audio", "scale"}:
        raise DataError("the input is not a sound", why='expected {"audio": BASE64}', help=REMEDY)
    recording = features.recording(decode_base64(value["audio"], "audio"), "audio")
    if "scale" in value:
        try:
            recording.speaker = KnownScale(checked_scale(value["scale"], features.recipe.channels))
        except MALFORMED as error:
            raise DataError("cannot parse the scale of a speaker", why=describe_error(error)) from error
    return recording


def joined_scale(recordings: Sequence[Recording]) -> Scale:
    """Return the scale of all frames of the speakers of recordings, before they are standardized."""
    speakers = {id(recording.speaker): recording.speaker for recording in recordings}.values()
    return Moments.joined([speaker.moments for speaker in speakers if isinstance(speaker, Speaker)]).scale


def as_recording(value: Any, where: str | None, features: SoundFeatures) -> Recording:
    """Return a recording, or that in the bytes of a file. Raises DataError for another object."""
    if isinstance(value, bytes):
        return features.recording(value, where or "audio")
    if isinstance(value, Recording):
        return value
    why = "expected the bytes of a file; paths are not opened"
    raise DataError("the input is not a sound", where=where, why=why, help="pathlib.Path(…).read_bytes()")


def checked_scale(saved: Any, channels: int) -> Scale:
    """Return a scale from its lists. Raises ValueError unless it has finite means and positive deviations."""
    scale = np.array(saved, np.float64)
    if scale.shape == (2, channels) and np.isfinite(scale).all() and (scale[1] > 0).all():
        return scale
    raise ValueError(f"expected two lists of {channels} finite numbers, mean and deviation, the latter above 0")
