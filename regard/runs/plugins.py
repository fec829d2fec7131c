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
    for name in _listed():
        enable(name)


def is_listed(distribution: str) -> bool:
    """Return whether ``REGARD_PLUGINS`` lists this distribution."""
    return distribution in map(_normalized, _listed())


def _listed() -> list[str]:
    return [name for part in os.environ.get(VARIABLE, "").split(",") if (name := part.strip())]


def enable(name: str) -> None:
    """Register the entry points of a distribution, or import a module that registers its parts itself.

    The name is added to ``REGARD_PLUGINS``, because child processes need the same parts.

    Raises:
        ConfigError: if the distribution or module does not exist, or cannot be imported.
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
    if name not in (listed := _listed()):
        os.environ[VARIABLE] = ",".join([*listed, name])


def needed_plugins(tables: Any) -> list[Plugin]:
    """Return the installed plugins whose kinds a config names, in its sections ``model`` and ``task``."""
    sections = tables if isinstance(tables, Mapping) else {}
    kinds = {*_kinds([sections.get("model"), sections.get("task")])}
    return [plugin for plugin in installed() if plugin.point.name in kinds and not _is_own(plugin)]


def enable_needed(tables: Any, *, saved: bool) -> None:
    """Enable the listed plugins, and those whose kinds a config of the user names.

    Args:
        tables: the config, as nested tables.
        saved: whether it comes from a run folder, which enables nothing; see ``require_plugins``.
    """
    enable_listed()
    if not saved:  # to find the installed plugins takes 0.1 s
        for plugin in needed_plugins(tables):
            enable(plugin.distribution)


def recorded(tables: Any) -> dict[str, str]:
    """Return the versions of the distributions that a config needs, for ``environment.json``."""
    return {plugin.distribution: plugin.version for plugin in needed_plugins(tables)}


def require_plugins(needed: Any, where: str) -> None:
    """Raise ConfigError unless the distributions that a run was trained with are installed, and listed.

    Args:
        needed: the result of ``recorded`` in training, read from a run folder; None without plugins.
        where: the run folder.
    """
    if not isinstance(needed, Mapping) or not needed:
        return
    enable_listed()
    enabled = {*map(_normalized, _ENABLED)}
    for name, version in needed.items():
        kinds = [plugin.point.name for plugin in installed() if plugin.distribution == name]
        why = "it was trained with a part of this distribution, which is not installed"
        help = f"install {name}, then: {VARIABLE}={name} regard …"
        if kinds:
            why = f"its parts {', '.join(map(repr, kinds))} are imported only if {VARIABLE} lists it"
            help = f"if you trust it: {VARIABLE}={name} regard …"
        if name not in enabled:
            raise ConfigError(f"the run needs the plugin {name} {version}", where=where, why=why, help=help)


def _kinds(value: Any) -> Iterator[str]:
    """Yield the texts that may be kinds: ``kind`` of a table, and a value that replaces such a table."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name != "from":  # the folder of a run
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
