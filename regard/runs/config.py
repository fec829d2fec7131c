"""Reading and writing of configs: layers of TOML, validated as a whole and saved with all values. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from regard.config.explain import expand_key, expand_short_keys, explain, short_keys
from regard.config.toml_layers import TomlLayer, locate, merge, parse_override, read_layers
from regard.core.installation import upgrade_advice
from regard.core.task_table import locate as locate_task
from regard.core.untrusted_files import shortened
from regard.core.wording import did_you_mean
from regard.errors import ConfigError
from regard.runs.origin import base_layer, parse_start, require_agreement
from regard.runs.plugins import enable_needed
from regard.runs.run_config import FORMAT, RunConfig, StartingPoint, TaskSection


def load_config(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str] = (), *, saved: bool = False
) -> RunConfig:
    """Load a config, apply ``key=value`` overrides, and validate the result.

    All sources may have ``extends = "recipe or path"``. An override without a value after ``=`` removes the key.

    Args:
        source: the name of a recipe, the path of a TOML file, or a mapping.
        overrides: ``key=value`` texts.
        saved: whether this is the config of a run folder. Its missing keys were added to Regard later and have the
            value that the run used. A file in a run folder counts as saved, too.

    Raises:
        ConfigError: with file and line, or the override, and the nearest key.
    """
    if isinstance(source, str):
        source = find_recipe(source)
    saved = saved or _of_a_run(source)
    read, parsed = read_layers(source, find_recipe), [parse_override(override) for override in overrides]
    stated = merge(read, parsed)
    enable_needed(stated, saved=saved)
    kind = _task_kind(stated, read)
    config: type[RunConfig] = locate_task(kind, saved=saved).config()
    short = short_keys(config)
    start = None if saved else parse_start(stated)
    trained = None if start is None else source_config(start)
    if start is not None and trained is not None:
        read = [base_layer(trained, config, kind, start), *read]
    layers = [_normalized(expand_short_keys(layer, short), config) for layer in read]
    set_keys = [(config.moved(expand_key(key, short)), value) for key, value in parsed]
    values = merge(layers, set_keys, config.replaced)
    _refuse_newer(values, layers)
    if saved:
        config.migrate_saved(values)
    try:
        resolved = config.model_validate(values)
    except ValidationError as error:
        raise explain(error, config, layers, [key for key, _ in set_keys]) from error
    if start is not None and trained is not None:
        require_agreement(resolved, trained, start)
    return resolved


def source_config(start: StartingPoint) -> RunConfig:
    """Return the config of the run that another starts from; ConfigError if it is missing."""
    path = Path(start.origin.run)
    if not (path / "config.toml").is_file():
        raise ConfigError(
            f"the run to start from, {path}, is missing",
            where=start.key,
            why="the folder has no config.toml" if path.exists() else "the folder does not exist",
            help=f"import a transformers folder first: regard import {path} RUN, then --set {start.key}=RUN"
            if path.exists()
            else None,
        )
    return load_config(path / "config.toml", saved=True)


def _normalized(layer: TomlLayer, config: type[RunConfig]) -> TomlLayer:
    """Return the layer with the current spelling of network keys."""
    values = {
        name: net.normalized(value) if isinstance(value, Mapping) and (net := config.nets().get(name)) else value
        for name, value in layer.values.items()
    }
    return TomlLayer(layer.label, values, {config.moved(key): line for key, line in layer.lines.items()})


def _task_kind(values: Mapping[str, Any], layers: Sequence[TomlLayer]) -> str:
    """Return the task of merged tables: ``task = "NAME"`` or ``task = { kind = "NAME" }``; translation by default."""
    task = values.get("task", {})
    kind = task.get("kind", TaskSection().kind) if isinstance(task, Mapping) else task
    if not isinstance(kind, str):
        where = locate(layers, ("task", "kind")) or locate(layers, ("task",)) or "task"
        raise ConfigError(f"task.kind cannot be {shortened(repr(kind))}", where=where, why="it must be a name")
    return kind


def _of_a_run(source: Path | Mapping[str, Any]) -> bool:
    return isinstance(source, Path) and source.name == "config.toml" and (source.parent / "checkpoints").is_dir()


def dump_config(config: RunConfig) -> str:
    """Return the config as TOML that loads as an equal config. None values are omitted, since TOML has no null."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


def recipe_names() -> list[str]:
    """Return the recipes that come with the package."""
    folder = resources.files("regard") / "recipes"
    return sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".toml"))


def find_recipe(name: str, folder: Path | None = None) -> Path:
    """Return the file of ``name``: a path, relative to ``folder`` or the working directory, or a recipe."""
    if name.endswith(".toml") or "/" in name:
        path = (folder or Path()) / Path(name).expanduser()
        if path.is_file():
            return path
        raise _no_file(name, path)
    if name in recipe_names():
        return Path(str(resources.files("regard") / "recipes" / f"{name}.toml"))
    raise ConfigError(
        f"unknown recipe {name!r}",
        why=f"the recipes are {', '.join(recipe_names()) or 'none'}; the name of a config file must end in .toml",
        help=did_you_mean(name, recipe_names()),
    )


def _no_file(name: str, path: Path) -> ConfigError:
    if (path / "config.toml").is_file():
        what, help = f"{name} is a run, not data or a recipe", f"resume it: regard train --resume {name}"
        return ConfigError(what, where=str(path), help=help)
    if path.is_dir():
        files = sorted(file.name for file in path.iterdir() if file.is_file())[:5]
        content = f"it contains {', '.join(files)}" if files else "it is empty"
        return ConfigError(
            f"{name} is a folder, not a file or a recipe", where=str(path), why=content, help="name its files"
        )
    return ConfigError(f"config file {name} not found", where=str(path))


def _refuse_newer(values: Mapping[str, Any], layers: Sequence[TomlLayer]) -> None:
    version = values.get("format", FORMAT)
    if isinstance(version, int) and version > FORMAT:
        raise ConfigError(
            f"the config has format {version}; this version of Regard reads up to {FORMAT}",
            where=locate(layers, ("format",)) or "format",
            help=upgrade_advice(),
        )
