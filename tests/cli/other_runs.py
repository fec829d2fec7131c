"""Tiny runs of other tasks than translation, trained in a moment; treat them as read-only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import regard
from tests.laws import own_task

OWN = f"{own_task.__name__}:TASK"
TEXT = "the cat sat on the mat\nthe rat sat on the hat\n" * 12


def train_language_model(folder: Path) -> Path:
    (folder / "book.txt").write_text(TEXT, encoding="utf-8")
    source = str(folder / "book.txt")
    data = {"train": [{"source": source, "share": [0.0, 0.8]}], "valid": [{"source": source, "share": [0.8, 1.0]}]}
    tables: dict[str, Any] = {
        "task": "language-model", "data": {**data, "context": 16},
        "model": {"layers": 1, "width": 16, "heads": 2, "feed_forward": 16},
        "train": {"steps": 30, "batch_tokens": 64, "threads": 1, "precision": "float32", "learning_rate": 0.02},
        "generate": {"length": 12},
    }  # fmt: skip
    return regard.train(tables, folder / "book")


def train_means(folder: Path) -> Path:
    """A run of the task of ``tests/laws/own_task.py``; REGARD_TASKS must name it."""
    data = own_task.sample(folder)["data"]
    train = {"steps": 2, "threads": 1, "precision": "float32", "best_by": "error"}
    tables = {"task": OWN, "data": data | {"valid": data["train"]}, "train": train}
    return regard.train(tables, folder / "mean")


def train_masked(folder: Path) -> Path:
    (folder / "lines.txt").write_text(TEXT, encoding="utf-8")
    texts = [{"source": str(folder / "lines.txt")}]
    tables: dict[str, Any] = {
        "task": "masked", "data": {"train": texts, "valid": texts, "context": 16},
        "model": {"layers": 1, "width": 16, "heads": 2, "feed_forward": 16, "dropout": 0.0},
        "train": {"steps": 4, "batch_tokens": 64, "threads": 1, "precision": "float32", "learning_rate": 0.02},
    }  # fmt: skip
    return regard.train(tables, folder / "gaps")
