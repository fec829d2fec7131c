"""Classification of recordings with a sample of its own, for the laws of tasks."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.wav_files import write_wav
from regard.tasks.classification.task import TASK as CLASSIFICATION

__all__ = ["RATE", "TASK", "line_of", "save_sounds", "tone"]

RATE = 8000
LABELS = ("low", "high")


def tone(number: int, *, length: float | None = None) -> npt.NDArray[np.int16]:
    """A tone with noise: 300 Hz for even numbers, 1,500 Hz for odd ones; 5 to 8 frames."""
    random, seconds = np.random.default_rng(number), length or 0.07 + 0.01 * (number % 4)
    time = np.arange(round(seconds * RATE)) / RATE
    wave = np.sin(2 * np.pi * (300, 1500)[number % 2] * time) + random.normal(0, 0.1, len(time))
    return np.asarray(np.round(8000 * wave), np.int16)


def save_sounds(
    path: Path, sounds: Sequence[npt.NDArray[Any]], labels: Sequence[Any], speakers: Sequence[Any] | None = None
) -> Path:
    """Write recordings, their labels and their speakers as a .npz."""
    offsets = np.cumsum([0, *map(len, sounds)])
    spoken = {} if speakers is None else {"speaker": np.array(speakers)}
    np.savez(path, samples=np.concatenate(sounds), offsets=offsets, label=np.array(labels), **spoken)
    return path


def line_of(samples: npt.NDArray[np.int16]) -> str:
    """The line of a request with a recording."""
    return json.dumps({"audio": base64.b64encode(write_wav(samples, RATE)).decode()})


def _sample(folder: Path) -> Mapping[str, Any]:
    labels, speakers = [LABELS[number % 2] for number in range(8)], [f"s{number // 4}" for number in range(8)]
    corpus = {"source": str(save_sounds(folder / "sample.npz", [*map(tone, range(8))], labels, speakers))}
    sound = {"rate": RATE, "channels": 40, "normalization": "speaker", "trim": 40.0, "shift": 1, "time_masks": 1}
    return {
        "data": {"train": [corpus], "valid": [corpus], "input": "audio", "max_length": 7, "sound": sound},
        "model": {
            "layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "pooling": "attention",
            "encoder": {"input": {"subsample": 2}},
        },
        "train": {"batch_tokens": 16},
    }  # fmt: skip


def _held_out(folder: Path, sample: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    configs = []
    for number, labels in ((20, "low high"), (31, "high low high")):
        sounds = [tone(number + place) for place in range(len(labels.split()))]
        path = save_sounds(folder / f"held-out-{number}.npz", sounds, labels.split(), ["new"] * len(sounds))
        configs.append({**sample, "data": {**sample["data"], "valid": [{"source": str(path)}]}})
    return configs


TASK = replace(
    CLASSIFICATION,
    sample=_sample,
    held_out_samples=_held_out,
    sample_lines=(line_of(tone(40)), line_of(tone(41)), line_of(tone(42, length=0.03))),
)
