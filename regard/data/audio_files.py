"""Sounds from the bytes of files: WAV without a library, FLAC, OGG and MP3 by ``soundfile`` (the extra ``speech``)."""

from __future__ import annotations

import io
from collections.abc import Iterable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from regard.core.installation import extra_command
from regard.core.wording import pluralize
from regard.data.foreign_errors import foreign_errors
from regard.data.wav_files import (
    MAX_CHANNELS,
    MAX_SECONDS,
    RATES,
    Samples,
    Wave,
    is_wav,
    read_wav,
    refused,
    require_finite,
    require_short,
)
from regard.errors import ConfigError

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")
FORMATS = {b"fLaC": "FLAC", b"OggS": "OGG", b"ID3": "MP3"}  # by their first bytes
BLOCK = 1 << 20  # samples decoded at a time


class Sound(NamedTuple):
    """A sound with one channel.

    Attributes:
        samples: (samples,), from −1 to 1.
        rate: samples per second.
        channels: of the file, before they were mixed.
        source_rate: of the file, before it was resampled.
    """

    samples: Samples
    rate: int
    channels: int = 1
    source_rate: int = 0

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def read_sound(contents: bytes, name: str, *, rate: int | None = None, max_seconds: float = MAX_SECONDS) -> Sound:
    """Decode a file, mix its channels to one, and resample it.

    The format follows from the bytes, never from the name. Mixing takes the mean of the channels.

    Args:
        contents: the bytes of a WAV, FLAC, OGG or MP3 file.
        name: of the file, for messages; it is not opened.
        rate: the samples per second to return; None: those of the file.
        max_seconds: the limit of the duration, checked before samples are decoded.

    Raises:
        DataError: the sound cannot be read, has no samples, or is too long.
        ConfigError: decoding or resampling needs a package that is not installed.
    """
    wave = _decoded(contents, name, max_seconds)
    samples = wave.samples[:, 0] if wave.samples.shape[1] == 1 else wave.samples.mean(1, dtype=np.float32)
    sound = Sound(samples, wave.rate, wave.samples.shape[1], wave.rate)
    return sound if rate is None else sound._replace(samples=resample(samples, wave.rate, rate, name), rate=rate)


def resample(samples: Samples, rate: float, new_rate: float, name: str) -> Samples:
    """Return samples at another rate, band-limited, by ``soxr``; the same array if the rates are equal."""
    if rate == new_rate:
        return samples
    soxr = _library("soxr", f"resampling from {rate:,g} to {new_rate:,g} Hz", name)
    with foreign_errors("cannot resample the sound", None):
        resampled: Samples = np.asarray(soxr.resample(samples, rate, new_rate), np.float32)
    return resampled if len(resampled) else samples[:1]


def resampler(rate: int, new_rate: int, name: str) -> Any:
    """Return a resampler of ``soxr`` for a sound that arrives in pieces; its results are those of ``resample``."""
    soxr = _library("soxr", f"resampling from {rate:,g} to {new_rate:,g} Hz", name)
    return soxr.ResampleStream(rate, new_rate, 1, dtype="float32")


def conversion_reports(sounds: Iterable[Sound]) -> list[str]:
    """Return a line for each way in which sounds were converted, with the number of sounds."""
    mixed, rates = 0, dict[tuple[int, int], int]()
    for sound in sounds:
        mixed += sound.channels > 1
        if sound.source_rate not in (0, sound.rate):
            rates[sound.source_rate, sound.rate] = rates.get((sound.source_rate, sound.rate), 0) + 1
    lines = [f"{pluralize(mixed, 'recording')} with several channels mixed to one"] if mixed else []
    return lines + [
        f"{pluralize(count, 'recording')} resampled from {old:,} to {new:,} Hz"
        for (old, new), count in sorted(rates.items())
    ]


def _decoded(contents: bytes, name: str, max_seconds: float) -> Wave:
    if not contents:
        raise refused(name, "the file is empty")
    if is_wav(contents):
        return read_wav(contents, name, max_seconds=max_seconds)
    mpeg = len(contents) > 1 and contents[0] == 0xFF and contents[1] & 0xE0 == 0xE0
    sort = next((sort for start, sort in FORMATS.items() if contents.startswith(start)), "MP3" if mpeg else None)
    if sort is None:
        raise refused(name, "it does not begin as a WAV, FLAC, OGG or MP3 file does", convert=True)
    soundfile = _library("soundfile", f"{sort} files", name)
    with foreign_errors(f"cannot read the sound {name}: it is not valid {sort}", None):
        file = soundfile.SoundFile(io.BytesIO(contents))
        return _read_blocks(file, name, max_seconds)


def _read_blocks(file: Any, name: str, max_seconds: float) -> Wave:
    """Read a file of ``soundfile`` up to the limit: its header may state fewer samples than it has."""
    if not 1 <= file.channels <= MAX_CHANNELS or not RATES[0] <= file.samplerate <= RATES[1]:
        raise refused(name, f"it has {pluralize(file.channels, 'channel')} at {file.samplerate:,} Hz")
    require_short(file.frames, file.samplerate, file.channels, name, max_seconds)
    blocks, total = [], 0
    while len(block := file.read(BLOCK // file.channels, dtype="float32", always_2d=True)):
        total += len(block)
        require_short(total, file.samplerate, file.channels, name, max_seconds)
        blocks.append(block)
    if not blocks:
        raise refused(name, "it has 0 samples")
    return Wave(require_finite(np.concatenate(blocks), file.samplerate, name), file.samplerate)


def _library(module: str, purpose: str, name: str) -> Any:
    try:
        return import_module(module)
    except (ImportError, OSError) as error:  # OSError: the C library inside is missing
        why = "it is not installed" if isinstance(error, ImportError) else str(error)
        raise ConfigError(
            f"{purpose} need {module}" if purpose.endswith("files") else f"{purpose} needs {module}",
            where=name, why=why, help=extra_command("speech"),
        ) from error  # fmt: skip
