"""Classification of images with a sample of its own, for the laws of tasks."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.image_files import Pixels, write_pnm
from regard.tasks.classification.task import TASK as CLASSIFICATION

__all__ = ["LABELS", "TASK", "bar", "line_of", "save_images"]

LABELS = ("row", "column")


def bar(number: int, *, size: tuple[int, int] = (6, 6)) -> Pixels:
    """A bright row for even numbers, a bright column for odd ones, on noise."""
    image = np.random.default_rng(number).integers(0, 60, (*size, 1)).astype(np.uint8)
    image[(2 + number // 2 % 3,) if number % 2 == 0 else (slice(None), 2 + number // 2 % 3)] += 180
    return image


def save_images(path: Path, images: Sequence[Pixels], labels: Sequence[Any]) -> Path:
    """Write images of one size and their labels as a .npz."""
    np.savez(path, images=np.stack(images), label=np.array(labels))
    return path


def line_of(pixels: Pixels) -> str:
    """The line of a request with an image."""
    return json.dumps({"image": base64.b64encode(write_pnm(pixels)).decode()})


def _sample(folder: Path) -> Mapping[str, Any]:
    labels = [LABELS[number % 2] for number in range(8)]
    corpus = {"source": str(save_images(folder / "sample.npz", [*map(bar, range(8))], labels))}
    return {
        "data": {
            "train": [corpus], "valid": [corpus], "input": "images", "max_length": 9,
            "image": {"shift": 1, "angle": 10.0},
        },
        "model": {
            "layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "pooling": "attention",
            "encoder": {"input": {"patch": 2}},
        },
        "train": {"batch_tokens": 36},
    }  # fmt: skip


def _held_out(folder: Path, sample: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    configs = []
    for number, labels in ((20, "row column"), (31, "column row column")):
        images = [bar(number + place) for place in range(len(labels.split()))]
        path = save_images(folder / f"held-out-{number}.npz", images, labels.split())
        configs.append({**sample, "data": {**sample["data"], "valid": [{"source": str(path)}]}})
    return configs


TASK = replace(
    CLASSIFICATION,
    sample=_sample,
    held_out_samples=_held_out,
    sample_lines=(line_of(bar(40)), line_of(bar(41)), line_of(bar(42, size=(9, 5)))),
)
