"""Declaration of a setting, once, with its type, bounds, unit, help and example. Imports no pydantic, for fast options.

Classes of settings are plain classes whose annotated attributes are made by ``setting``. Config keys and request fields
(``setting_models``), command-line options (``commands.setting_options``), docs and docstrings are derived from them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import cleandoc
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

Function = TypeVar("Function", bound=Callable[..., Any])


class Bounds(NamedTuple):
    """Limits of a value; None is no limit.

    Attributes:
        low: the minimum.
        high: the maximum.
        above: an exclusive minimum.
        texts: the maximum number of texts in a list.
        characters: the maximum length of each text in a list; empty texts are invalid.
    """

    low: float | None = None
    high: float | None = None
    above: float | None = None
    texts: int | None = None
    characters: int | None = None


class Setting(NamedTuple):
    """Declaration of one setting.

    Attributes:
        kind: type of the value without None, such as ``int``.
        default: value of a config that does not set it.
        optional: whether a config may leave it unset (None).
        help: one imperative sentence, without the full stop.
        group: heading in help pages (Search, Sampling).
        bounds: limits in a config, in Python and on the command line.
        request: limits in a request to a server, if they differ.
        unit: unit of a number.
        example: a valid value.
        metavar: name of the value in help pages.
        config_only: whether neither commands nor requests may set it.
    """

    kind: Any
    default: Any
    optional: bool
    help: str
    group: str = "Search"
    bounds: Bounds = Bounds()
    request: Bounds | None = None
    unit: str = ""
    example: Any = None
    metavar: str | None = None
    config_only: bool = False


class _Declared(NamedTuple):
    default: Any
    changes: dict[str, Any]


def setting(default: Any, **declared: Any) -> Any:
    """Declare a setting of a class; in a subclass, omitted attributes are those of the base class.

    Args:
        default: value of a config that does not set it.
        declared: other attributes of ``Setting``.
    """
    return _Declared(default, declared)


@cache
def settings_of(settings: type) -> dict[str, Setting]:
    """Return the settings that a class and its bases declare, by name, those of the bases first."""
    attributes: dict[str, dict[str, Any]] = {}
    for base in reversed(settings.__mro__):
        for name, declared in vars(base).items():
            if isinstance(declared, _Declared):
                attributes[name] = attributes.get(name, {}) | declared.changes | {"default": declared.default}
    hints = get_type_hints(settings)
    return {name: _complete(hints[name], known) for name, known in attributes.items()}


def _complete(annotation: Any, attributes: dict[str, Any]) -> Setting:
    optional = NoneType in get_args(annotation)
    kind = next(option for option in get_args(annotation) if option is not NoneType) if optional else annotation
    return Setting(kind, optional=optional, **attributes)


def document_settings(settings: type) -> Callable[[Function], Function]:
    """Return a decorator that appends a list of these settings to a function's docstring."""

    def decorate(function: Function) -> Function:
        lines = [f"    {name}: {known.help}." for name, known in settings_of(settings).items()]
        function.__doc__ = "\n".join(
            [cleandoc(function.__doc__ or ""), "", "Settings, by default those of the run:", *lines]
        )
        return function

    return decorate
