"""Reading and writing of configs: TOML over TOML, checked as a whole, saved resolved. Imports no torch."""

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
from regard.runs.origin import layer_beneath, require_agreement, stated_start
from regard.runs.run_config import FORMAT, RunConfig, StartingPoint, TaskSection


def load_config(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str] = (), *, saved: bool = False
) -> RunConfig:
    """Read a recipe by name, a TOML file by path, or a mapping; lay ``key=value`` over it; check it all.

    ``saved``: it is that of a run folder, where a key that is missing was added since, and means what the run did; a
    file that lies in one is such a config, too.
    Any of them may say ``extends = "recipe or path"``. An override with nothing after ``=`` takes the key out.
    Raises ConfigError, which names the file and line, or the override, and the nearest key.
    """
    if isinstance(source, str):
        source = find_recipe(source)
    saved = saved or _of_a_run(source)
    read, parsed = read_layers(source, find_recipe), [parse_override(each) for each in overrides]
    stated = merge(read, parsed)
    kind = _task_kind(stated, read)
    config: type[RunConfig] = locate_task(kind, saved=saved).config()
    short = short_keys(config)
    start = None if saved else stated_start(stated)
    source_config = None if start is None else _source_of(start)
    if start is not None and source_config is not None:
        read = [layer_beneath(source_config, config, kind, start), *read]
    layers = [_normalized(expand_short_keys(layer, short), config) for layer in read]
    given = [(config.moved(expand_key(key, short)), value) for key, value in parsed]
    values = merge(layers, given, config.replaced)
    _refuse_newer(values, layers)
    if saved:
        config.as_it_was(values)
    try:
        found = config.model_validate(values)
    except ValidationError as error:
        raise explain(error, config, layers, [key for key, _ in given]) from error
    if start is not None and source_config is not None:
        require_agreement(found, source_config, start)
    return found


def _source_of(start: StartingPoint) -> RunConfig:
    """The config of the run that another starts from; ConfigError where there is none."""
    path = Path(start.origin.run)
    if not (path / "config.toml").is_file():
        raise ConfigError(
            f"there is no run {path} to start from",
            where=start.key,
            why="it holds no config.toml" if path.exists() else "there is no such folder",
            help="regard import makes a run of a folder of transformers" if path.exists() else None,
        )
    return load_config(path / "config.toml", saved=True)


def _normalized(layer: TomlLayer, config: type[RunConfig]) -> TomlLayer:
    """The layer with the keys of networks as they are spelled now."""
    values = {
        name: net.normalized(value) if isinstance(value, Mapping) and (net := config.nets().get(name)) else value
        for name, value in layer.values.items()
    }
    return TomlLayer(layer.label, values, {config.moved(key): line for key, line in layer.lines.items()})


def _task_kind(values: Mapping[str, Any], layers: Sequence[TomlLayer]) -> str:
    """The task that merged tables name: ``task = "NAME"`` or ``task = { kind = "NAME" }``; translation unless given."""
    task = values.get("task", {})
    kind = task.get("kind", TaskSection().kind) if isinstance(task, Mapping) else task
    if not isinstance(kind, str):
        where = locate(layers, ("task", "kind")) or locate(layers, ("task",)) or "task"
        raise ConfigError(f"task.kind cannot be {shortened(repr(kind))}", where=where, why="it should be a name")
    return kind


def _of_a_run(source: Path | Mapping[str, Any]) -> bool:
    return isinstance(source, Path) and source.name == "config.toml" and (source.parent / "checkpoints").is_dir()


def dump_config(config: RunConfig) -> str:
    """The config as TOML that loads equal. What is None is left out: TOML has no null."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    folder = resources.files("regard") / "recipes"
    return sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".toml"))


def find_recipe(name: str, folder: Path | None = None) -> Path:
    """The file that ``name`` means: a path, from ``folder`` or from here, if it looks like one; else a recipe."""
    if name.endswith(".toml") or "/" in name:
        path = (folder or Path()) / Path(name).expanduser()
        if path.is_file():
            return path
        raise _no_file(name, path)
    if name in recipe_names():
        return Path(str(resources.files("regard") / "recipes" / f"{name}.toml"))
    raise ConfigError(
        f"there is no recipe {name!r}",
        why=f"the recipes are {', '.join(recipe_names()) or 'none'}; a file of your own ends in .toml",
        help=did_you_mean(name, recipe_names()),
    )


def _no_file(name: str, path: Path) -> ConfigError:
    if (path / "config.toml").is_file():
        what, help = f"{name} is a run, neither data nor a recipe", f"regard train --resume {name}"
        return ConfigError(what, where=str(path), help=help)
    if path.is_dir():
        found = sorted(each.name for each in path.iterdir() if each.is_file())[:5]
        held = f"it holds {', '.join(found)}" if found else "it is empty"
        return ConfigError(
            f"{name} is a folder, neither data nor a recipe", where=str(path), why=held, help="name files"
        )
    return ConfigError(f"there is no recipe file {name}", where=str(path))


def _refuse_newer(values: Mapping[str, Any], layers: Sequence[TomlLayer]) -> None:
    given = values.get("format", FORMAT)
    if isinstance(given, int) and given > FORMAT:
        raise ConfigError(
            f"this config has format {given}; this version of regard reads up to {FORMAT}",
            where=locate(layers, ("format",)) or "format",
            help=upgrade_advice(),
        )
