"""Options shared by several verbs, which a command receives as one value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NamedTuple

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
