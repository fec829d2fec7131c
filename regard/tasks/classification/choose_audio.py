"""Automatic choice of the config for recordings with labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.wording import pluralize
from regard.data.audio_files import SUFFIXES, read_sound
from regard.data.file_names import named_files
from regard.data.labeled_files import has_labeled_files
from regard.data.log_mel import FRAME_RATE
from regard.data.npz_files import read_arrays
from regard.data.recordings import SoundFeatures
from regard.data.rows import form_of
from regard.data.shared_files import FilesConfig
from regard.data.sound_options import SoundOptions
from regard.errors import ConfigError
from regard.runs.run_config import Proposal
from regard.tasks.automatic_training import training_settings
from regard.tasks.classification.automatic_config import ADAMW
from regard.tasks.classification.class_parts import corpus_of, single_examples
from regard.tasks.classification.spoken_examples import SAMPLES, SpokenExample, read_spoken
from regard.tasks.detect_files import held_out_parts, wide_reasons

SMALL = 20_000  # recordings of a small corpus
SAMPLED = 1_000  # recordings whose duration is read
MAX_LENGTH = 3_000  # maximum number of frames that the automatic choice sets
MAX_RATE = 16_000  # higher frequencies have little speech
TRIM = 30.0  # dB


class _Measured(NamedTuple):
    """Facts of a corpus: recordings, labels, speakers, and the rates and durations of some recordings."""

    examples: list[SpokenExample]
    rates: Counter[int]
    seconds: list[float]

    @property
    def speakers(self) -> set[str]:
        return {example.speaker for example in self.examples if example.speaker is not None}


def reads(path: Path) -> bool:
    """Return whether a file or a folder has recordings with labels, by its names."""
    return has_labeled_files(path, SAMPLES, SUFFIXES)


def choose(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
    """Return the config of a classifier of recordings; None if these are other files."""
    corpus = corpus_of(files, valid, reads)
    if corpus is None:
        return None
    set_keys = overrides.get("data", {}).get("sound", {})
    measured = _measured(corpus.whole, _rate(corpus.files[0], set_keys))
    parts, held_out = corpus.parts or held_out_parts(
        corpus.detected, valid, examples="recordings", hashed="their speaker" if measured.speakers else "their content",
        keys=lambda files: (example.split_key for example in _read(files, SoundOptions())),
    )  # fmt: skip
    count, seconds = len(measured.examples), sum(measured.seconds) / len(measured.seconds)
    longest = min(round(1.5 * max(measured.seconds) * FRAME_RATE), MAX_LENGTH)
    small = count <= SMALL
    settings = training_settings(
        overrides, tokens=count * seconds * FRAME_RATE, epochs=40 if small else 10, optimizer=ADAMW, largest=4096,
        smallest=2 * longest, patience=10 if "valid" in parts else None,
    )  # fmt: skip
    classes = pluralize(len({example.label for example in measured.examples}), "class", "classes")
    sound, reasons = _sound(measured, small=small)
    config = {
        "task": {"kind": "classification"},
        "data": {**parts, "input": "audio", "max_length": longest, "sound": sound | dict(set_keys)},
        "model": {
            "preset": "tiny" if small else "small", "pooling": "attention", "encoder": {"input": {"subsample": 2}},
            "wide": overrides.get("baseline", True),
        },
        "train": settings,
    }  # fmt: skip
    spoken = f" by {pluralize(len(measured.speakers), 'speaker')}" if measured.speakers else ""
    what = f"{pluralize(count, 'recording')}{spoken} of {seconds:.1f} s on average, {classes} → classification"
    alone = single_examples(example.label for example in measured.examples)
    return Proposal(config, [what, held_out, *alone, *reasons, *wide_reasons(overrides)])


def _rate(path: Path, set_keys: Mapping[str, Any]) -> int | None:
    """Return the rate that the user or the array ``rate`` of a .npz states; None for files, which state their own."""
    rate = set_keys.get("rate")
    if isinstance(rate, int) or form_of(path) != "npz":
        return rate if isinstance(rate, int) else None
    stated = read_arrays(path, "rate").get("rate")
    if stated is None or stated.size != 1:
        raise ConfigError(
            "the rate of the recordings is not known", where=str(path), why="the file has no array `rate`",
            help="--set data.sound.rate=16000, or the number of samples per second that the recordings have",
        )  # fmt: skip
    return int(stated.reshape(()))


def _read(files: FilesConfig, options: SoundOptions) -> Iterator[SpokenExample]:
    for path in named_files(files.source):
        yield from read_spoken(None, path, SoundFeatures(options), labeled=True, part=files.part)


def _measured(files: FilesConfig, rate: int | None) -> _Measured:
    """Read the labels of a corpus, and the rates and durations of recordings at equal distances."""
    examples = [*_read(files, SoundOptions() if rate is None else SoundOptions(rate=rate))]
    step = -(-len(examples) // SAMPLED)
    sounds = (read_sound(example.recording.contents(), example.recording.name) for example in examples[::step])
    rates, seconds = Counter[int](), list[float]()
    for sound in sounds:
        rates[sound.rate] += 1
        seconds.append(sound.seconds)
    return _Measured(examples, rates, seconds)


def _sound(measured: _Measured, *, small: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the table ``data.sound``, and the reasons."""
    rate = min(measured.rates.most_common(1)[0][0], MAX_RATE)
    channels, several = 40 if small else 80, len(measured.speakers) > 1
    normalization = "speaker" if several else "corpus"
    sound: dict[str, Any] = {
        "rate": rate, "channels": channels, "normalization": normalization, "trim": TRIM,
        "shift": 5, "channel_masks": 2, "channel_width": channels // 5, "time_masks": 2, "time_share": 0.2,
    }  # fmt: skip
    reasons = [
        f"features: {channels} log-mel channels at {rate:,} Hz, standardized by {normalization}, ends more than "
        f"{TRIM:g} dB below the loudest frame removed (data.sound)"
    ]
    if small and find_spec("soxr") is not None:
        sound["speeds"] = [0.9, 1.0, 1.1]
    faster = ", speeds 0.9 to 1.1" if "speeds" in sound else ""
    reasons.append(f"training: masked channels and frames, shifts{faster}, drawn in each epoch")
    if len(measured.rates) > 1:
        changed = sum(measured.rates.values()) - measured.rates[rate]
        reasons.append(f"{pluralize(changed, 'recording')} with another rate → resampled to {rate:,} Hz")
    return sound, reasons
