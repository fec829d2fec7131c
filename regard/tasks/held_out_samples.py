"""Samples of a task with equal training data and different validation data, for the law that keeps the two apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def validated_on(sample: Mapping[str, Any], folder: Path, name: str, contents: Sequence[str]) -> list[dict[str, Any]]:
    """Return the config once for each of ``contents``, the text of a validation file that is called ``name``."""
    configs = []
    for number, content in enumerate(contents):
        path = folder / f"held-out-{number}" / name
        path.parent.mkdir()
        path.write_text(content, encoding="utf-8")
        configs.append({**sample, "data": {**sample["data"], "valid": [{"source": str(path)}]}})
    return configs
