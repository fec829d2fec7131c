"""Sounds from bytes: each WAV encoding, other formats, conversions, and one clear message for each kind of damage."""

from __future__ import annotations

import io
import struct
import sys

import numpy as np
import pytest
import soundfile

from regard.data import audio_files
from regard.data.audio_files import Sound, conversion_reports, read_sound, resample
from regard.data.wav_files import GUID, read_wav, write_wav
from regard.errors import ConfigError, DataError

VALUES = np.array([0, 0.5, -0.5, -1, 0.25], np.float32)  # exact in every encoding


def chunk(name: bytes, data: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(data) if size is None else size) + data + b"\0" * (len(data) % 2)


def header(codec: int, bits: int, *, channels: int = 1, rate: int = 8000, frame: int | None = None) -> bytes:
    frame = channels * bits // 8 if frame is None else frame
    return struct.pack("<HHIIHH", codec, channels, rate, rate * frame, frame, bits)


def wav(*chunks: bytes) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def plain(data: bytes, **options: int) -> bytes:
    return wav(chunk(b"fmt ", header(1, 16, **options)), chunk(b"data", data))


def encoded(bits: int, values: np.ndarray = VALUES) -> bytes:
    """Integer samples by their definition: one at a time."""
    integers = [round(float(value) * 2 ** (bits - 1)) for value in values]
    if bits == 8:
        return bytes(integer + 128 for integer in integers)
    return b"".join(integer.to_bytes(bits // 8, "little", signed=True) for integer in integers)


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_integers_of_each_size_are_read_exactly(bits: int) -> None:
    sound = read_sound(wav(chunk(b"fmt ", header(1, bits)), chunk(b"data", encoded(bits))), "a.wav")
    assert sound.samples.tolist() == VALUES.tolist() and sound.samples.dtype == np.float32
    assert (sound.rate, sound.channels, sound.seconds) == (8000, 1, 5 / 8000)


@pytest.mark.parametrize("bits", [32, 64])
def test_floats_are_read_exactly(bits: int) -> None:
    data = VALUES.astype(f"<f{bits // 8}").tobytes()
    assert read_sound(wav(chunk(b"fmt ", header(3, bits)), chunk(b"data", data)), "a").samples.tolist() == [*VALUES]


def test_extended_formats_and_further_chunks_are_read() -> None:
    extended = header(0xFFFE, 24) + struct.pack("<HHIH", 22, 20, 4, 1) + GUID
    contents = wav(
        chunk(b"LIST", b"odd"), chunk(b"fmt ", extended), chunk(b"fact", b"1234"), chunk(b"data", encoded(24))
    )
    assert read_wav(contents, "a.wav").samples[:, 0].tolist() == VALUES.tolist()


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFF000, 0x7FFFFFFF])
def test_samples_of_unknown_size_end_with_the_file(size: int) -> None:
    """Programs that write to a pipe cannot return to the header."""
    contents = wav(chunk(b"fmt ", header(1, 16)), chunk(b"data", encoded(16), size))
    assert read_sound(contents, "a.wav").samples.tolist() == VALUES.tolist()


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_a_written_sound_is_read_again(dtype: type) -> None:
    samples = np.array([0, 3, -7], np.int16) if dtype is np.int16 else VALUES
    scale = 2**15 if dtype is np.int16 else 1
    assert (read_sound(write_wav(samples, 8000), "a").samples * scale).tolist() == samples.tolist()
    own, _ = soundfile.read(io.BytesIO(write_wav(samples, 8000)), dtype="float32")
    assert (own * scale).tolist() == samples.tolist()


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        (b"", "the file is empty"),
        (b"ID", "it does not begin as a WAV"),
        (b"RIFX\0\0\0\0WAVE", "it is of the type RIFX"),
        (wav(), "it has no samples: the chunk 'data' is missing"),
        (wav(chunk(b"data", b"12")), "its header has no format before the samples"),
        (wav(chunk(b"fmt ", b"12"), chunk(b"data", b"12")), "its format has 2 bytes"),
        (plain(b""), "it has 0 samples"),
        (plain(b"12")[:-2], "its chunk 'data' should have 2 bytes, and the file ends after 0"),
        (plain(b"123"), "its 3 bytes of samples end inside a sample of 2 bytes"),
        (plain(b"12", channels=0), "its header is damaged: it states 0 channels"),
        (plain(b"12", rate=0), "in 2 bytes, at 0 Hz"),
        (plain(b"1234", frame=4), "1 channel of 16 bits in 4 bytes"),
        (wav(chunk(b"fmt ", header(1, 16), 1 << 31)), "its chunk 'fmt ' should have 2,147,483,648 bytes"),
        (wav(chunk(b"fmt ", header(6, 8)), chunk(b"data", b"1")), "its samples are A-law of 8 bits"),
        (wav(chunk(b"fmt ", header(99, 8)), chunk(b"data", b"1")), "its samples are the codec 99 of 8 bits"),
        (wav(chunk(b"fmt ", header(1, 12, frame=1)), chunk(b"data", b"1")), "its samples are PCM of 12 bits"),
        (wav(chunk(b"fmt ", header(0xFFFE, 16)), chunk(b"data", b"12")), "its extended format is damaged"),
        (
            wav(chunk(b"fmt ", header(3, 32)), chunk(b"data", np.array([0, 0, np.nan], "<f4").tobytes())),
            "a sample at 0.000 s is not finite",
        ),
        (b"fLaC" + b"\0" * 60, "FLAC"),
        (b"ID3" + b"\0" * 60, "MP3"),
    ],
)
def test_a_damaged_file_has_one_message(contents: bytes, why: str) -> None:
    with pytest.raises(DataError) as caught:
        read_sound(contents, "broken.wav")
    assert why in str(caught.value) and "broken.wav" in str(caught.value)


def test_a_codec_that_is_not_supported_names_a_remedy() -> None:
    with pytest.raises(DataError, match=r"ffmpeg -i a\.wav -c:a pcm_s16le") as caught:
        read_sound(wav(chunk(b"fmt ", header(7, 8)), chunk(b"data", b"1")), "a.wav")
    assert "µ-law" in str(caught.value)


def tone(rate: int = 16000, channels: int = 1) -> np.ndarray:
    wave = 0.5 * np.sin(2 * np.pi * 440 * np.arange(rate // 4) / rate)
    return np.stack([wave] * channels, 1).astype(np.float32)


@pytest.mark.parametrize(("kind", "subtype"), [("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")])
def test_other_formats_are_read_by_soundfile(kind: str, subtype: str) -> None:
    packed = io.BytesIO()
    soundfile.write(packed, tone(), 16000, format=kind, subtype=subtype)
    sound = read_sound(packed.getvalue(), "name says nothing")
    assert sound.rate == 16000 and abs(sound.seconds - 0.25) < 0.15
    assert 0.3 < sound.samples.std() / tone().std() < 1.1


def test_two_channels_are_mixed_by_their_mean_and_other_rates_resampled() -> None:
    both = np.stack([np.full(800, 8192), np.full(800, -8192 + 4096)], 1).astype("<i2")
    sound = read_sound(plain(both.tobytes(), channels=2), "a.wav", rate=16000)
    assert (sound.channels, sound.source_rate, sound.rate, len(sound.samples)) == (2, 8000, 16000, 1600)
    assert np.abs(sound.samples[200:-200] - 0.0625).max() < 1e-4


def test_conversions_are_reported_once_with_counts() -> None:
    sounds = [Sound(VALUES, 16000, 2, 8000), Sound(VALUES, 16000, 1, 8000), Sound(VALUES, 16000, 1, 16000)]
    assert conversion_reports(sounds) == [
        "1 recording with several channels mixed to one", "2 recordings resampled from 8,000 to 16,000 Hz",
    ]  # fmt: skip


def test_a_low_tone_keeps_its_frequency_when_resampled() -> None:
    old = tone(8000)[:, 0]
    new = resample(old, 8000, 16000, "a")
    expected = tone(16000)[:, 0]
    assert len(new) == 4000 and np.abs(new[400:-400] - expected[400:-400]).max() < 1e-3


def test_long_sounds_are_refused_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"it lasts 0\.1 s, and the limit is 0\.1 s"):
        read_sound(plain(bytes(2 * 801)), "a.wav", max_seconds=0.1)
    packed = io.BytesIO()
    soundfile.write(packed, np.zeros(80_000, np.int16), 8000, format="FLAC")
    monkeypatch.setattr(audio_files, "_read_blocks", lambda *args: audio_files.require_short(80_000, 8000, 1, "a", 1))
    with pytest.raises(DataError, match=r"it lasts 10.0 s, and the limit is 1.0 s"):
        read_sound(packed.getvalue(), "a.flac", max_seconds=1)


def test_a_header_with_too_few_samples_does_not_pass_the_limit() -> None:
    """The samples that are decoded count, not only those that the header states."""

    class Lying:
        channels, samplerate, frames = 1, 8000, 10

        def read(self, count: int, **options: object) -> np.ndarray:
            return np.zeros((count, 1), np.float32)

    with pytest.raises(DataError, match=r"and the limit is 200\.0 s"):
        audio_files._read_blocks(Lying(), "a.flac", 200)


@pytest.mark.parametrize("module", ["soundfile", "soxr"])
def test_a_missing_package_is_named_with_the_command(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=module) as caught:
        read_sound(b"fLaC" + b"\0" * 60, "a.flac") if module == "soundfile" else resample(VALUES, 8000, 16000, "a.wav")
    assert "speech" in str(caught.value) or "soundfile" in str(caught.value)
