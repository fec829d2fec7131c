"""Options of a command line, derived from declared settings: see ``config.setting``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated, Any

import typer

from regard.commands.shared_arguments import SharedOption, taken_together
from regard.config.search_settings import SearchSettings
from regard.config.setting import Setting, settings_of

SHOWN = 10_000  # a larger bound guards memory: the check of the config has it, the help page does not


def takes_settings(
    argument: str,
    *settings: type,
    group: str | None = None,
    only: Collection[str] = (),
    without: Collection[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator of a command: its ``argument`` becomes an option for each setting.

    The command gets the values by name, None for those that are not given.

    Args:
        argument: name of the parameter.
        settings: classes of declarations.
        group: the settings of this group alone.
        only: the names of the settings; all unless given.
        without: the names of settings to leave out.
    """
    options = {
        name: SharedOption(setting_option(name, each))
        for declared in settings
        for name, each in settings_of(declared).items()
        if not each.config_only and group in (None, each.group) and (not only or name in only) and name not in without
    }
    return taken_together(argument, options, dict)


def setting_option(name: str, setting: Setting) -> Any:
    """Return the type of an option, as typer reads it."""
    spelled = "--" + name.replace("_", "-")
    several = setting.kind == tuple[str, ...]
    kind = list[str] if several else setting.kind
    numeric = kind in (int, float)
    option = typer.Option(
        f"{spelled}/--no-{spelled[2:]}" if kind is bool else spelled,
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
