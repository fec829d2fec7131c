"""Inputs of a recognizer: sounds, their contents, or frames, as the frames of the run."""

from __future__ import annotations

import base64
import binascii
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.untrusted_files import parse_json, shortened
from regard.data.audio_files import Sound, read_sound
from regard.errors import DataError
from regard.tasks.recognition.features import Features

HELP = 'write {"audio": BASE64} with the contents of a sound file, or a list of frames: [[0.5, 1.0], …]'


class Heard(NamedTuple):
    """An input: its frames (frames, channels), not standardized, the second of the first one, and its duration."""

    frames: npt.NDArray[np.float32]
    start: float
    seconds: float


def heard_sound(features: Features, sound: Sound, name: str) -> Heard:
    """Return the frames of a sound at the rate of the run. DataError if the run reads frames."""
    if features.data.input != "audio":
        why = 'it was trained on the frames of arrays (data.input = "frames")'
        raise DataError("this model does not read sounds", where=name, why=why, help="pass frames: [[0.5, 1.0], …]")
    frames, removed = features.trimmed(sound, name)
    return Heard(features.require(frames, name), removed / features.frame_rate, sound.seconds)


def heard_file(features: Features, contents: bytes, name: str) -> Heard:
    """Return the frames of the contents of a sound file; ``name`` is for messages."""
    if features.data.input != "audio":
        return heard_sound(features, Sound(np.zeros(1, np.float32), features.options.rate), name)  # refused
    return heard_sound(features, read_sound(contents, name, rate=features.options.rate), name)


def heard_frames(features: Features, value: Any, where: str | None = None) -> Heard:
    """Return given frames: an array or lists of numbers (frames, channels)."""
    try:
        table = np.asarray(value, np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise DataError("cannot parse frames", where=where, why="the lists differ in length", help=HELP) from error
    with np.errstate(over="ignore"):  # reported as not finite
        frames = table.astype(np.float32)
    return Heard(features.require(frames, where), 0.0, len(frames) / features.frame_rate)


def heard(features: Features, value: Any) -> Heard:
    """Return an input of Python: contents of a sound file, samples, frames, or an earlier result.

    Raises:
        DataError: for another type; a path is never opened.
    """
    if isinstance(value, Heard):
        return value
    if isinstance(value, bytes | bytearray):
        return heard_file(features, bytes(value), "the sound")
    if isinstance(value, str | PurePath):
        help = "model([Path(name).read_bytes()])"
        raise DataError("a recognizer does not open files", why="the input is a text, not a sound", help=help)
    if isinstance(value, Sound):
        return heard_sound(features, value, "the sound")
    array = np.asarray(value) if not isinstance(value, list | tuple) else value
    if isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind == "f" and len(array):
        return heard_sound(features, Sound(array.astype(np.float32), features.options.rate), "the samples")
    return heard_frames(features, array)


def heard_line(features: Features, line: str) -> Heard:
    """Return the input of a line of JSON: {"audio": BASE64}, {"frames": LIST}, or a list of frames."""
    try:
        value = parse_json(line)
    except ValueError as error:
        what = f"cannot parse a recording from {shortened(line)!r}"
        raise DataError(what, why=f"not JSON: {error}", help=HELP) from error
    if isinstance(value, dict) and {*value} == {"frames"}:
        value = value["frames"]
    if isinstance(value, dict) and {*value} == {"audio"} and isinstance(value["audio"], str):
        try:
            contents = base64.b64decode(value["audio"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise DataError("cannot parse a recording", why=f"not Base64: {error}", help=HELP) from error
        return heard_file(features, contents, "audio")
    numbers = isinstance(value, list) and all(
        isinstance(frame, list) and {*map(type, frame)} <= {int, float} for frame in value
    )
    if not numbers:
        raise DataError("cannot parse a recording", why="neither a sound nor a list of frames", help=HELP)
    return heard_frames(features, value)
