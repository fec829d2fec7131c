"""A config for sessions nobody wrote a recipe for, each choice with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.config.settings import TRAINING_ENDS
from regard.core.untrusted_files import parse_json
from regard.data.file_names import JSON_LINES, has_ending
from regard.data.reading import read_lines
from regard.data.tables import column_names, is_table
from regard.errors import RegardError
from regard.runs.config import Proposal
from regard.tasks.held_out_parts import held_out_parts
from regard.tasks.next_item.sessions import session_columns

__all__ = ["choose"]


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """A model of next items for rows with a list ``items``, or a session and an item; None for any other files."""
    told_by = _told_by(files[0]) if len(files) == 1 and files[0].is_file() else None
    if told_by is None:
        return None
    parts, told = held_out_parts(files[0], valid, examples="sessions", hashed="their items")
    settings: dict[str, Any] = {"batch_tokens": 2048, "clip_norm": 1.0}
    if "optimizer" not in given:
        settings |= {"optimizer": "adamw", "learning_rate": 2e-3, "weight_decay": 0.1, "warmup": 200}
    if not set(TRAINING_ENDS) & given.keys():
        settings |= {"epochs": 40, "early_stopping": 5}
    config = {
        "task": {"kind": "next-item"},
        "data": parts,
        "model": {"layers": 2, "width": 128, "feed_forward": 256, "heads": 4, "dropout": 0.2},
        "train": settings,
    }
    reasons = [f"{told_by}: a model of next items (task.kind = next-item)", told]
    return Proposal(config, reasons)


def _told_by(path: Path) -> str | None:
    """Why a file is one of sessions; None where it is not."""
    try:
        if is_table(path):
            names = column_names(path)
            columns = ("items",) if "items" in names else session_columns(names)
            return None if columns is None else f"its columns are {' and '.join(columns)}"
        if not has_ending(path, JSON_LINES):
            return None
        row = parse_json(next(iter(read_lines(path)), ""))
    except (RegardError, ValueError):  # whoever reads it next says so
        return None
    return "its lines have lists of items" if isinstance(row, dict) and isinstance(row.get("items"), list) else None
