"""Options that several verbs share, of which a command gets the values together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NamedTuple

Command = Callable[..., None]


class SharedOption(NamedTuple):
    """An option as typer reads it, and its value where none is given."""

    kind: Any
    default: Any = None


def taken_together(
    argument: str, options: Mapping[str, SharedOption], gather: Callable[..., Any]
) -> Callable[[Command], Command]:
    """Decorator of a command: these options in place of its ``argument``, which gets what ``gather`` makes of them."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters: list[inspect.Parameter] = []
        for name, each in signature.parameters.items():
            if name != argument:
                parameters.append(each)
                continue
            parameters += [
                inspect.Parameter(option, keyword, default=its.default, annotation=its.kind)
                for option, its in options.items()
            ]

        @wraps(command)
        def whole(*positional: Any, **given: Any) -> None:
            taken = {name: given.pop(name) for name in options if name in given}
            command(*positional, **{argument: gather(**taken)}, **given)

        whole.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        whole.__annotations__ = {each.name: each.annotation for each in parameters}
        return whole

    return decorate
