"""Reader of WAV files from their bytes: PCM of 8, 16, 24 and 32 bits, and floats of 32 and 64 bits."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.wording import pluralize
from regard.errors import DataError

Samples = npt.NDArray[np.float32]

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
CODECS = {2: "MS ADPCM", 6: "A-law", 7: "µ-law", 17: "IMA ADPCM", 80: "MPEG", 85: "MP3"}  # known, but not supported
GUID = bytes.fromhex("000000001000800000aa00389b71")  # of an extensible format, after the two bytes of the codec
# Written by programs that cannot seek, such as ffmpeg, espeak-ng and sox in a pipe: the samples end with the file.
UNKNOWN_SIZES = (0xFFFFFFFF, 0x7FFFF000, 0x7FFFFFFF)
MAX_CHANNELS = 64
RATES = 1_000, 384_000  # samples per second
MAX_SECONDS = 4 * 3600.0
MAX_NUMBERS = 1 << 28  # samples of all channels, which take four bytes each


class Wave(NamedTuple):
    """Decoded samples (samples, channels), from −1 to 1, and the number of samples per second."""

    samples: Samples
    rate: int


class _Format(NamedTuple):
    codec: int
    channels: int
    rate: int
    frame: int  # bytes of one sample of all channels
    bits: int


def is_wav(contents: bytes) -> bool:
    """Return whether the bytes begin as a WAV file does."""
    return contents[:4] in (b"RIFF", b"RF64", b"RIFX") and contents[8:12] == b"WAVE"


def read_wav(contents: bytes, name: str, *, max_seconds: float = MAX_SECONDS) -> Wave:
    """Return the samples of a WAV file; chunks other than the format and the samples are skipped.

    Every size is compared with the bytes before memory is taken, so the samples take at most four times the memory of
    the file.

    Args:
        contents: the bytes of the file.
        name: of the file, for messages.
        max_seconds: the limit of the duration.

    Raises:
        DataError: the header is damaged, the codec is not supported, the sound has no samples or is too long, or a
            float is not finite.
    """
    if contents[:4] in (b"RF64", b"RIFX"):
        raise refused(name, f"it is of the type {contents[:4].decode()}, and only RIFF is supported", convert=True)
    shape: _Format | None = None
    for chunk, start, size in _chunks(contents, name):
        if chunk == b"fmt ":
            shape = _format(contents[start : start + size], name)
        elif chunk == b"data":
            if shape is None:
                raise refused(name, "its header has no format before the samples")
            require_short(size // shape.frame, shape.rate, shape.channels, name, max_seconds)
            return Wave(_samples(contents, start, size, shape, name), shape.rate)
    raise refused(name, "it has no samples: the chunk 'data' is missing")


def refused(name: str, why: str, *, convert: bool = False) -> DataError:
    """Return the error for a sound that cannot be read; ``convert``: another program may read it."""
    help = f"convert it: ffmpeg -i {name} -c:a pcm_s16le sound.wav" if convert else None
    return DataError("cannot read the sound", where=name, why=why, help=help)


def require_short(count: int, rate: int, channels: int, name: str, max_seconds: float) -> None:
    """Raise DataError if samples of several channels are too many, or last too long."""
    limit = min(max_seconds, MAX_NUMBERS / channels / rate)
    if count > limit * rate:
        raise refused(name, f"it lasts {count / rate:,.1f} s, and the limit is {limit:,.1f} s")


def _chunks(contents: bytes, name: str) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name, the first byte and the size of each chunk. DataError if a chunk ends after the file."""
    place = 12
    while place + 8 <= len(contents):
        chunk, size = struct.unpack_from("<4sI", contents, place)
        available = len(contents) - place - 8
        if chunk == b"data" and size in UNKNOWN_SIZES:
            size = available
        if size > available:
            label = chunk.decode("ascii", "backslashreplace")
            why = f"its chunk {label!r} should have {size:,} bytes, and the file ends after {available:,}"
            raise refused(name, why)
        yield chunk, place + 8, size
        place += 8 + size + size % 2


def _format(chunk: bytes, name: str) -> _Format:
    """Return the checked format. DataError if it is damaged, or not supported."""
    if len(chunk) < 16:
        raise refused(name, f"its format has {pluralize(len(chunk), 'byte')}, and at least 16 are required")
    codec, channels, rate, _, frame, bits = struct.unpack_from("<HHIIHH", chunk)
    if codec == EXTENSIBLE:
        if len(chunk) < 40 or chunk[26:40] != GUID:
            raise refused(name, "its extended format is damaged, or of an unknown codec", convert=True)
        codec = struct.unpack_from("<H", chunk, 24)[0]
    if codec not in (PCM, FLOAT) or bits not in ((8, 16, 24, 32) if codec == PCM else (32, 64)):
        sort = {PCM: "PCM", FLOAT: "floats"}.get(codec) or CODECS.get(codec, f"the codec {codec}")
        why = f"its samples are {sort} of {bits} bits; supported are PCM of 8 to 32 bits and floats"
        raise refused(name, why, convert=True)
    if not 1 <= channels <= MAX_CHANNELS or not RATES[0] <= rate <= RATES[1] or frame != channels * bits // 8:
        what = f"{pluralize(channels, 'channel')} of {bits} bits in {frame} bytes, at {rate:,} Hz"
        raise refused(name, f"its header is damaged: it states {what}")
    return _Format(codec, channels, rate, frame, bits)


def _samples(contents: bytes, start: int, size: int, shape: _Format, name: str) -> Samples:
    if size % shape.frame:
        raise refused(name, f"its {size:,} bytes of samples end inside a sample of {shape.frame} bytes")
    if not size:
        raise refused(name, "it has 0 samples")
    raw = memoryview(contents)[start : start + size]
    if shape.codec == FLOAT:
        with np.errstate(over="ignore"):  # reported as not finite
            floats = np.frombuffer(raw, f"<f{shape.bits // 8}").astype(np.float32)
        return require_finite(floats.reshape(-1, shape.channels), shape.rate, name)
    numbers: Any
    if shape.bits == 8:
        numbers = (np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / 128
    elif shape.bits == 24:
        numbers = _from_24_bits(raw)
    else:
        numbers = np.frombuffer(raw, f"<i{shape.bits // 8}").astype(np.float32) / np.float32(2 ** (shape.bits - 1))
    table: Samples = numbers.reshape(-1, shape.channels)
    return table


def _from_24_bits(raw: memoryview) -> Samples:
    low, middle, high = np.frombuffer(raw, np.uint8).reshape(-1, 3).T
    numbers = low.astype(np.int32) | middle.astype(np.int32) << 8 | high.astype(np.int8).astype(np.int32) << 16
    return numbers.astype(np.float32) / np.float32(2**23)


def require_finite(samples: Samples, rate: int, name: str) -> Samples:
    """Return samples (samples, channels). DataError, with the second, for one that is not finite."""
    finite = np.isfinite(samples).all(1)
    if not finite.all():
        second = int(np.argmin(finite)) / rate
        raise refused(name, f"a sample at {second:.3f} s is not finite")
    return samples


def write_wav(samples: npt.NDArray[np.floating] | npt.NDArray[np.int16], rate: int) -> bytes:
    """Return the bytes of a WAV file with one channel: PCM of 16 bits for int16 samples, else floats of 32 bits."""
    codec, dtype = (PCM, "<i2") if samples.dtype == np.int16 else (FLOAT, "<f4")
    data = samples.astype(dtype).tobytes()
    size = np.dtype(dtype).itemsize
    header = struct.pack("<4sIHHIIHH", b"fmt ", 16, codec, 1, rate, rate * size, size, 8 * size)
    chunks = b"WAVE" + header + struct.pack("<4sI", b"data", len(data)) + data
    return struct.pack("<4sI", b"RIFF", len(chunks)) + chunks
