"""Words that a recognizer writes for sounds without words: 200 silences, noises and tones.

    python bench/silences.py runs/digit-strings [--seed 1]

Fifty sounds each of silence with single steps of noise, white noise, noise with less energy at high frequencies, and
tones, of half a second to four seconds, at −60 to −6 dB. Prints a JSON line with the words and the sounds that have
some.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import regard

KINDS, EACH, SECONDS, DECIBELS = ("silence", "white noise", "dark noise", "tone"), 50, (0.5, 4.0), (-60.0, -6.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    model: Any = regard.load(options.run)
    random, rate = np.random.default_rng(options.seed), model.config.data.sound.rate
    words, wrong = 0, dict.fromkeys(KINDS, 0)
    for kind in KINDS:
        sounds = [sound(kind, int(random.uniform(*SECONDS) * rate), rate, random) for _ in range(EACH)]
        for output in model(sounds):
            words += len(output.text.split())
            wrong[kind] += bool(output.text.strip())
    print(json.dumps({"sounds": EACH * len(KINDS), "words": words, "sounds with words": wrong}))


def sound(kind: str, length: int, rate: int, random: np.random.Generator) -> Any:
    """Return samples between −1 and 1."""
    if kind == "silence":
        return (random.integers(-1, 2, length) / 32768).astype(np.float32)
    loudness = 10 ** (random.uniform(*DECIBELS) / 20)
    noise = random.standard_normal(length)
    if kind == "dark noise":
        spectrum = np.fft.rfft(noise)
        spectrum[1:] /= np.arange(1, len(spectrum)) ** random.uniform(0.3, 1.0)
        noise = np.fft.irfft(spectrum, length)
    if kind == "tone":
        noise = np.sin(2 * np.pi * random.uniform(60, rate / 3) * np.arange(length) / rate)
    return (loudness * noise / np.abs(noise).max()).astype(np.float32)


if __name__ == "__main__":
    main()
