"""Classification of frames with a sample of its own, for the laws of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.tasks.classification.task import TASK as CLASSIFICATION

__all__ = ["TASK", "save_frames"]


def save_frames(path: Path, series: Sequence[Any], labels: Sequence[Any] | None = None) -> Path:
    """Write series of frames (positions, numbers) and their labels as a .npz."""
    offsets = np.cumsum([0, *map(len, series)])
    named = {} if labels is None else {"label": np.array(labels)}
    np.savez(path, frames=np.concatenate(series).astype(np.float32), offsets=offsets, **named)
    return path


def _series(number: int) -> Any:
    """Frames whose first numbers rise or fall, and others that are noise."""
    noise, length = np.random.default_rng(number).normal(size=(3 + number % 4, 3)), 3 + number % 4
    noise[:, 0] = noise[:, 0] / 10 + np.arange(length) * (1 if number % 2 else -1)
    return noise


def _sample(folder: Path) -> Mapping[str, Any]:
    labels = [("down", "up")[number % 2] for number in range(8)]
    corpus = {"source": str(save_frames(folder / "sample.npz", [_series(number) for number in range(8)], labels))}
    return {
        "data": {"train": [corpus], "valid": [corpus], "input": "frames", "max_length": 5},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "pooling": "attention"},
        "train": {"batch_tokens": 16},
    }


def _held_out(folder: Path, sample: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    configs = []
    for number, labels in ((20, "up down"), (30, "down down up")):
        series = [_series(number + place) for place in range(len(labels.split()))]
        path = save_frames(folder / f"held-out-{number}.npz", series, labels.split())
        configs.append({**sample, "data": {**sample["data"], "valid": [{"source": str(path)}]}})
    return configs


TASK = replace(
    CLASSIFICATION,
    sample=_sample,
    held_out_samples=_held_out,
    sample_lines=(
        "[[0, 1, 2], [1, 0, 0], [2, 1, 1]]",
        "[[0.5, -1, 3]]",
        "[[3,0,0],[1,1,1],[-1,0,0],[-3,0,1],[-5,0,0]]",
    ),
)
