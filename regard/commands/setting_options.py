"""Command-line options, derived from declared settings: see ``config.setting``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated, Any

import typer

from regard.commands.shared_arguments import SharedOption, option_group
from regard.config.search_settings import SearchSettings
from regard.config.setting import Setting, settings_of

SHOWN = 10_000  # larger bounds only protect memory; the config checks them, and help pages do not show them


def takes_settings(
    argument: str,
    *settings: type,
    group: str | None = None,
    only: Collection[str] = (),
    without: Collection[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces a parameter of a command by an option for each setting.

    The command receives a dict of values by name, None for options that are not set.

    Args:
        argument: the name of the parameter.
        settings: the classes that declare the settings.
        group: include only the settings of this group.
        only: include only the settings with these names; all by default.
        without: leave out the settings with these names.
    """
    options = {
        name: SharedOption(setting_option(name, setting))
        for declared in settings
        for name, setting in settings_of(declared).items()
        if not setting.config_only
        and group in (None, setting.group)
        and (not only or name in only)
        and name not in without
    }
    return option_group(argument, options, dict)


def setting_option(name: str, setting: Setting) -> Any:
    """Return the annotation of an option for typer."""
    flag = "--" + name.replace("_", "-")
    several = setting.kind == tuple[str, ...]
    kind = list[str] if several else setting.kind
    numeric = kind in (int, float)
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
        min=_shown(setting.bounds.low) if numeric else None,
        max=_shown(setting.bounds.high) if numeric else None,
        metavar=setting.metavar,
        help=f"{setting.help}{'; may be repeated' if several else ''}.",
        rich_help_panel=setting.group,
    )
    return Annotated[kind | None, option]


def _shown(bound: float | None) -> float | None:
    return None if bound is None or abs(bound) > SHOWN else bound


Beam = setting_option("beam", settings_of(SearchSettings)["beam"])
