"""Spoken Multi30k, synthetic: English captions by the voices of espeak-ng, as WAV files and lists for recognition.

    apt-get install espeak-ng
    .venv/bin/python bench/speak.py data/multi30k data/multi30k-spoken
    .venv/bin/python bench/speak.py data/multi30k data/multi30k-spoken --train 9000

``data/multi30k`` has train.en, val.en and test_2016_flickr.en (also .gz). Writes train.jsonl, valid.jsonl (the first
400 captions), test.jsonl and the sounds, 16,000 samples per second with 16 bits. Twelve voices are accents and variants
of espeak-ng; four of them are in the test part only. Speed and pitch are drawn for each caption. Texts stay as written,
with capitals and punctuation, so that a translation model can read what is recognized.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soxr

from regard.data.text_files import read_lines
from regard.data.wav_files import read_wav, write_wav

RATE = 16_000
VOICES = ("en-us+m1", "en-us+f1", "en-us+m3", "en-us+f4", "en-gb+m2", "en-gb+f2", "en-gb-x-rp+m4", "en-gb-scotland+f3")
UNSEEN = ("en-us+m7", "en-us+f5", "en-gb+m8", "en-gb-x-rp+m6")
SPEEDS, PITCHES = (140, 190), (35, 65)  # words per minute, and espeak-ng's scale from 0 to 99


class Part(NamedTuple):
    """A part of the corpus: the file of its captions, their maximum number, and its voices."""

    captions: str
    size: int
    voices: Sequence[str]


class Spoken(NamedTuple):
    """One caption, and how it is spoken."""

    text: str
    voice: str
    speed: int
    pitch: int


PARTS = {
    "train": Part("train.en", 29_000, VOICES),
    "valid": Part("val.en", 400, VOICES),
    "test": Part("test_2016_flickr.en", 1_000, UNSEEN),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captions", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=PARTS["train"].size, help="training captions")
    parser.add_argument("--test", type=int, default=PARTS["test"].size, help="test captions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="captions that are spoken at the same time")
    options = parser.parse_args()
    if shutil.which("espeak-ng") is None:
        sys.exit("error: espeak-ng is not installed\n  = help: apt-get install espeak-ng")
    sizes = {"train": options.train, "test": options.test}
    for name, part in PARTS.items():
        spoken = list(drawn(captions(options.captions, part.captions), part, sizes.get(name, part.size), options.seed))
        seconds = write(spoken, options.folder, name, options.jobs)
        print(f"{options.folder / name}.jsonl: {len(spoken):,} captions, {seconds / 3600:.2f} hours", flush=True)


def captions(folder: Path, name: str) -> Iterator[str]:
    path = folder / name
    return read_lines(path if path.is_file() else folder / f"{name}.gz")


def drawn(texts: Iterator[str], part: Part, size: int, seed: int) -> Iterator[Spoken]:
    """Yield the first captions, each with a voice in turn, and its speed and pitch."""
    for number, text in enumerate(islice(filter(str.strip, texts), size)):
        random_numbers = random.Random(f"{seed} {part.captions} {number}")
        voice = part.voices[number % len(part.voices)]
        yield Spoken(text.strip(), voice, random_numbers.randint(*SPEEDS), random_numbers.randint(*PITCHES))


def write(spoken: Sequence[Spoken], folder: Path, part: str, jobs: int) -> float:
    """Write the sounds and the list of a part; return the seconds of all sounds."""
    (folder / part).mkdir(parents=True, exist_ok=True)
    lines = []
    with ThreadPoolExecutor(jobs) as threads:
        names = [f"{part}/{number:05}.wav" for number in range(len(spoken))]
        for name, one, seconds in zip(
            names, spoken, threads.map(say, spoken, [folder / n for n in names]), strict=True
        ):
            lines.append({"audio_filepath": name, "text": one.text, "duration": seconds, "speaker": one.voice})
    list_file = folder / f"{part}.jsonl"
    list_file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return sum(float(line["duration"]) for line in lines)


def say(one: Spoken, path: Path) -> float:
    """Write the sound of a caption, unless it is there; return its seconds."""
    if not path.is_file():
        command = ["espeak-ng", "-v", one.voice, "-s", str(one.speed), "-p", str(one.pitch), "--stdout", "--stdin"]
        done = subprocess.run(command, input=one.text.encode(), capture_output=True, check=True, timeout=60)
        sound = read_wav(done.stdout, one.text)
        samples = np.clip(soxr.resample(sound.samples, sound.rate, RATE), -1, 1)
        path.write_bytes(write_wav((samples * 32767).astype(np.int16), RATE))
    return round((path.stat().st_size - 44) / (2 * RATE), 4)


if __name__ == "__main__":
    main()
