"""Shell completions for options and arguments. Imports no torch: the shell runs this at each press of Tab."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import typer


def runs(incomplete: str) -> list[str]:
    """Complete run folders in ``runs`` and in the typed folder; without any, complete ordinary folders."""
    typed = Path(incomplete)
    folder = typed if incomplete.endswith("/") else typed.parent
    folders = [folder] if "/" in incomplete else [Path("runs"), folder]
    run_folders = [str(path.parent) for place in folders for path in sorted(place.glob("*/config.toml"))]
    return _beginning(run_folders, incomplete) or [f"{path}/" for path in _files(incomplete) if path.is_dir()]


def runs_and_files(incomplete: str) -> list[str]:
    """Complete run folders, then files."""
    return _once([*runs(incomplete), *map(_shown, _files(incomplete))])


def presets_and_runs(incomplete: str) -> list[str]:
    """Complete presets, then run folders."""
    from regard.models.presets import PRESETS

    return [*_beginning(PRESETS, incomplete), *runs(incomplete)]


def recipes_and_files(incomplete: str) -> list[str]:
    """Complete recipes of the package, then files."""
    from regard.runs.config import recipe_names

    return [*_beginning(recipe_names(), incomplete), *map(_shown, _files(incomplete))]


def metrics(incomplete: str) -> list[str]:
    """Complete the last name of a comma-separated list of metrics."""
    from regard.metrics.text import METRICS

    before, comma, last = incomplete.rpartition(",")
    earlier = before.split(",")
    return [before + comma + name for name in _beginning(METRICS, last) if name not in earlier]


def studies(incomplete: str) -> list[str]:
    """Complete names of studies, and the words list, all and page."""
    from regard.studies.catalog import STUDIES

    return _beginning(["list", "all", "page", *STUDIES], incomplete)


def corpora(incomplete: str) -> list[str]:
    """Complete public corpora."""
    from regard.data.public.catalog import corpora as known

    return _beginning(known(), incomplete)


def checkpoints(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete checkpoint names, and the steps of the run that was typed earlier."""
    # While an option still lacks its value, click leaves the run in ``args``.
    typed = map(Path, filter(None, [ctx.params.get("run"), *ctx.args]))
    run = next((path for path in typed if (path / "config.toml").is_file()), None)
    folders = sorted(run.glob("checkpoints/step-*")) if run else []
    steps = [str(int(folder.name.removeprefix("step-"))) for folder in folders if folder.name[5:].isdigit()]
    return _beginning(["average", "best", "last", *steps], incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _files(incomplete: str) -> Iterator[Path]:
    """Yield files and folders that start with the typed word; hidden ones only if the word starts with a dot."""
    typed = Path(incomplete)
    folder, name = (typed, "") if incomplete.endswith("/") or not incomplete else (typed.parent, typed.name)
    if folder.is_dir():
        yield from sorted(p for p in folder.iterdir() if p.name.startswith(name) and (name or p.name[0] != "."))


def _shown(path: Path) -> str:
    return f"{path}/" if path.is_dir() else str(path)


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
