"""Samples of a task with equal training data and different validation data, to test that the two are independent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def validated_on(sample: Mapping[str, Any], folder: Path, name: str, contents: Sequence[str]) -> list[dict[str, Any]]:
    """Return a copy of the config for each of ``contents``, the texts of validation files called ``name``."""
    configs = []
    for number, content in enumerate(contents):
        path = folder / f"held-out-{number}" / name
        path.parent.mkdir()
        path.write_text(content, encoding="utf-8")
        configs.append({**sample, "data": {**sample["data"], "valid": [{"source": str(path)}]}})
    return configs
