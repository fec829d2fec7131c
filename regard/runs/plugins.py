"""Plugins: mechanisms, mixers and tasks of other distributions, by entry points or modules.

A config of the user that names a kind of an installed distribution enables it. A run folder may come from someone
else, so it enables nothing: the environment variable ``REGARD_PLUGINS`` lists the distributions and modules that are
imported, separated by commas. Child processes inherit it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any, NamedTuple

from regard.core.task_table import TASKS, TaskPlace
from regard.errors import ConfigError

VARIABLE = "REGARD_PLUGINS"


class Plugin(NamedTuple):
    """An entry point of a distribution.

    Attributes:
        distribution: the name of the distribution.
        version: its version.
        group: ``regard.mechanisms``, ``regard.mixers`` or ``regard.tasks``.
        point: the kind and the object.
    """

    distribution: str
    version: str
    group: str
    point: EntryPoint


def _add_mechanism(point: EntryPoint) -> None:
    from regard.attention.catalog import MECHANISMS

    MECHANISMS.setdefault(point.name, point.load())


def _add_mixer(point: EntryPoint) -> None:
    from regard.models.attention_config import OTHER_MIXERS

    OTHER_MIXERS.setdefault(point.name, point.value)


def _add_task(point: EntryPoint) -> None:
    module = point.value.partition(":")[0]
    TASKS.setdefault(point.name, TaskPlace(f"{module}:CONFIG", point.value))


GROUPS: Mapping[str, Callable[[EntryPoint], None]] = {
    "regard.mechanisms": _add_mechanism, "regard.mixers": _add_mixer, "regard.tasks": _add_task,
}  # fmt: skip
_ENABLED: set[str] = set()


@cache
def installed() -> tuple[Plugin, ...]:
    """Return the plugins of all installed distributions; none is imported."""
    return tuple(
        Plugin(_name(one), one.version, point.group, point)
        for one in distributions()
        for point in one.entry_points
        if point.group in GROUPS
    )


def enable_listed() -> None:
    """Enable the distributions and modules that ``REGARD_PLUGINS`` lists, each once."""
    for name in filter(None, (name.strip() for name in os.environ.get(VARIABLE, "").split(","))):
        enable(name)


def enable(name: str) -> None:
    """Register the entry points of a distribution, or import a module that registers its parts itself.

    The name is added to ``REGARD_PLUGINS``, because child processes need the same parts.

    Raises:
        ConfigError: if there is no such distribution or module, or it cannot be imported.
    """
    if name in _ENABLED:
        return
    _ENABLED.add(name)  # before the import, which may load a config
    own = [plugin for plugin in installed() if plugin.distribution == _normalized(name)]
    try:
        for plugin in own:
            GROUPS[plugin.group](plugin.point)
        if not own:
            if os.getcwd() not in sys.path:  # missing in the path of the console script
                sys.path.append(os.getcwd())
            import_module(name)
    except Exception as error:
        _ENABLED.discard(name)
        help = f"install it, or remove it from {VARIABLE}"
        raise ConfigError(f"the plugin {name} cannot be imported", where=VARIABLE, why=str(error), help=help) from error
    listed = [one for one in os.environ.get(VARIABLE, "").split(",") if one]
    if name not in listed:
        os.environ[VARIABLE] = ",".join([*listed, name])


def needed_plugins(tables: Any) -> list[Plugin]:
    """Return the installed plugins whose kinds a config names, in its sections ``model`` and ``task``."""
    sections = tables if isinstance(tables, Mapping) else {}
    kinds = {*_kinds([sections.get("model"), sections.get("task")])}
    return [plugin for plugin in installed() if plugin.point.name in kinds and not _is_own(plugin)]


def enable_needed(tables: Any, *, saved: bool) -> None:
    """Enable the plugins whose kinds a config names.

    Args:
        tables: the config, as nested tables.
        saved: whether it comes from a run folder, which enables nothing.

    Raises:
        ConfigError: if a saved config needs a plugin that ``REGARD_PLUGINS`` does not list.
    """
    enable_listed()
    for plugin in needed_plugins(tables):
        if saved and plugin.distribution not in {*map(_normalized, _ENABLED)}:
            kind, group = plugin.point.name, plugin.group.removeprefix("regard.").removesuffix("s")
            why = f"its {group} {kind!r} is from the distribution {plugin.distribution}, which is not imported unasked"
            help = f"if you trust it: {VARIABLE}={plugin.distribution} regard …"
            raise ConfigError("the run needs a plugin", where=f"{group} {kind}", why=why, help=help)
        enable(plugin.distribution)


def recorded(tables: Any) -> dict[str, str]:
    """Return the versions of the distributions that a config needs, for ``environment.json``."""
    return {plugin.distribution: plugin.version for plugin in needed_plugins(tables)}


def require_installed(needed: Mapping[str, Any], where: str) -> None:
    """Raise ConfigError if a distribution that a run was trained with is not installed."""
    known = {plugin.distribution for plugin in installed()}
    for name, version in needed.items():
        if name not in known:
            why = "it was trained with a part of this distribution, which is not installed"
            help = f"install {name}, then: {VARIABLE}={name} regard …"
            raise ConfigError(f"the run needs the plugin {name} {version}", where=where, why=why, help=help)


def _kinds(value: Any) -> Iterator[str]:
    """Yield the texts that may be kinds: ``kind`` of a table, and a value that replaces such a table."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _kinds(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _kinds(inner)
    elif isinstance(value, str):
        yield value


def _is_own(plugin: Plugin) -> bool:
    """Return whether the kind is one of Regard's, which a plugin cannot replace."""
    if plugin.group == "regard.tasks":
        place = TASKS.get(plugin.point.name)
        return place is not None and place.task_name != plugin.point.value
    if plugin.group == "regard.mixers":
        from regard.models.attention_config import OTHER_MIXERS

        return OTHER_MIXERS.get(plugin.point.name, plugin.point.value) != plugin.point.value
    from regard.attention.catalog import MECHANISMS

    own = MECHANISMS.get(plugin.point.name)
    return own is not None and own.__module__.startswith("regard.")


def _name(distribution: Distribution) -> str:
    return _normalized(distribution.metadata["Name"] or "")


def _normalized(name: str) -> str:
    return name.lower().replace("_", "-")
