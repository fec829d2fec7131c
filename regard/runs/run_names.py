"""Names of new run folders."""

from __future__ import annotations

from pathlib import Path


def default_name(source: str) -> str:
    """Return the name of a file without its extensions; for the config of a run, the name of its folder."""
    file = Path(source)
    return (file.parent.name if file.name == "config.toml" else file.name.split(".")[0]) or "run"


def new_folder(runs: Path, name: str) -> Path:
    """Return ``runs/name``, or ``runs/name-2`` and so on if it exists: a default name must not cause an error."""
    path, number = runs / name, 2
    while path.exists():
        path, number = runs / f"{name}-{number}", number + 1
    return path
