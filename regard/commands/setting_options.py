"""Options that a command receives as one value: groups of options, and an option for each declared setting.

Settings are declared in ``config.setting``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Annotated, Any, NamedTuple

import typer

from regard.config.search_settings import SearchSettings
from regard.config.setting import Setting, settings_of

SHOWN = 10_000  # larger bounds only protect memory; the config checks them, and help pages do not show them
Command = Callable[..., None]


class SharedOption(NamedTuple):
    """The annotation of an option for typer, and its default value."""

    kind: Any
    default: Any = None


def option_group(
    argument: str, options: Mapping[str, SharedOption], gather: Callable[..., Any]
) -> Callable[[Command], Command]:
    """Return a decorator that replaces a parameter of a command by a group of options.

    Args:
        argument: the name of the parameter.
        options: the options, by name.
        gather: the function that builds the argument from the values of the options.
    """

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters: list[inspect.Parameter] = []
        for name, parameter in signature.parameters.items():
            if name != argument:
                parameters.append(parameter)
                continue
            parameters += [
                inspect.Parameter(option, keyword, default=shared.default, annotation=shared.kind)
                for option, shared in options.items()
            ]

        @wraps(command)
        def whole(*positional: Any, **keywords: Any) -> None:
            values = {name: keywords.pop(name) for name in options if name in keywords}
            command(*positional, **{argument: gather(**values)}, **keywords)

        whole.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        whole.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return whole

    return decorate


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
