"""Strings of spoken digits: sounds joined from the takes of one speaker, and lists of them as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.npz_files import read_arrays
from regard.data.wav_files import write_wav
from regard.errors import DataError

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
RATE, PAUSE = 8000, (0.02, 0.25)  # samples per second, and seconds between two digits
TAKES = {"train": (10, 50), "valid": (5, 10), "test": (0, 5), "long": (0, 5)}
LONG = 25  # digits of a string of the part long
NUMBERS = {"train": 3_000, "valid": 200, "test": 300, "long": 40}  # strings of each part
ARRAYS = ("samples", "offsets", "label", "speaker", "take", "speaker_names")

Arrays = Mapping[str, npt.NDArray[Any]]


def read_digits(path: Path) -> Arrays:
    """Return the arrays of FSDD: ``samples`` of all recordings, ``offsets``, ``label``, ``speaker``, ``take``, names.

    Raises:
        DataError: if the file is missing, or an array of it.
    """
    arrays: Arrays = read_arrays(path)
    if missing := [name for name in ARRAYS if name not in arrays]:
        raise DataError(f"the file lacks {', '.join(missing)}", where=str(path), why=f"expected {', '.join(ARRAYS)}")
    return arrays


def tones(seed: int) -> Arrays:
    """Return digits of two speakers as tones of 0.1 s, in the same arrays, for a test of the program."""
    random, length, takes = np.random.default_rng(seed), RATE // 10, TAKES["train"][1]
    place = [(speaker, digit, take) for speaker in range(2) for digit in range(10) for take in range(takes)]
    time = np.arange(length) / RATE
    sounds = [
        np.sin(2 * np.pi * (300 + 250 * digit + 40 * speaker) * time) * random.uniform(5_000, 9_000)
        for speaker, digit, _ in place
    ]
    speaker, digit, take = (np.array(column) for column in zip(*place, strict=True))
    return {
        "samples": np.concatenate(sounds).astype(np.int16), "offsets": np.arange(len(place) + 1) * length,
        "label": digit, "speaker": speaker, "take": take, "speaker_names": np.array(["low", "high"]),
    }  # fmt: skip


def write_strings(
    source: Arrays, folder: Path, *, unseen: str | None = None, numbers: Mapping[str, int] = NUMBERS, seed: int = 1
) -> None:
    """Write the sounds and the lists train.jsonl, valid.jsonl and test.jsonl of 1 to 5 digits, and long.jsonl of 25.

    Takes 0 to 4 are test, 5 to 9 validation, the others training. ``unseen``: the only speaker of test and long, who is
    in no other part.
    """
    names = [str(name) for name in source["speaker_names"]]
    known = [number for number, name in enumerate(names) if name != unseen]
    tested = known if unseen is None else [names.index(unseen)]
    for part, number in numbers.items():
        digits = (LONG, LONG) if part == "long" else (1, 5)
        speakers = tested if part in ("test", "long") else known
        (folder / part).mkdir(parents=True, exist_ok=True)
        lines = []
        for index, (samples, text, speaker) in enumerate(_strings(source, part, number, digits, speakers, seed)):
            name = f"{part}/{index}.wav"
            (folder / name).write_bytes(write_wav(samples, RATE))
            line = {"audio_filepath": name, "text": text, "duration": len(samples) / RATE, "speaker": speaker}
            lines.append(json.dumps(line) + "\n")
        (folder / f"{part}.jsonl").write_text("".join(lines), encoding="utf-8")


def _strings(
    source: Arrays, part: str, number: int, digits: tuple[int, int], speakers: list[int], seed: int
) -> Iterator[tuple[npt.NDArray[np.int16], str, str]]:
    """Yield samples, text and speaker of each string."""
    random = np.random.default_rng((seed, len(part), digits[1]))
    first, last = TAKES[part]
    allowed = (source["take"] >= first) & (source["take"] < last)
    for _ in range(number):
        speaker = int(random.choice(speakers))
        pieces, words = [], []
        for digit in random.integers(0, 10, random.integers(digits[0], digits[1] + 1)).tolist():
            chosen = random.choice(
                np.flatnonzero(allowed & (source["speaker"] == speaker) & (source["label"] == digit))
            )
            start, end = source["offsets"][chosen : chosen + 2]
            pause = np.zeros(round(RATE * random.uniform(*PAUSE)), np.int16)
            pieces += [source["samples"][start:end], pause]
            words.append(WORDS[digit])
        yield np.concatenate(pieces), " ".join(words), str(source["speaker_names"][speaker])
