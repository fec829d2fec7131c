"""Signatures of all names on the pages ``docs/reference/python*.md``, one on each line.

``python -m tests.public_signatures`` writes them to ``tests/public_signatures.txt``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ForwardRef

from pydantic import BaseModel

from .python_reference import PAGES, Documented, documented, identity

FILE = Path(__file__).parent / "public_signatures.txt"
COMMAND = "python -m tests.public_signatures"


def blocks() -> list[Documented]:
    """Return all documented classes and functions."""
    return [block for page in PAGES for block in documented(page.read_text(encoding="utf-8"))]


def signatures(documented: Iterable[Documented]) -> list[str]:
    """Return one line for each class or function, and for each member that its page selects."""
    return sorted({line for block in documented for line in _lines(block)})


def changes(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """Describe each difference between two lists of signatures."""
    old, new = ({_name(line): line for line in lines} for lines in (before, after))
    described = []
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            described.append(f"removed: {old[name]}")
        elif name not in old:
            described.append(f"added: {new[name]}")
        elif old[name] != new[name]:
            described.append(f"changed: {old[name]}\n     to: {new[name]}")
    return described


def _name(line: str) -> str:
    return line.partition("(")[0].partition(" -> ")[0].partition(": ")[0]


def _lines(block: Documented) -> Iterator[str]:
    named = block.resolve()
    yield block.path + (_class(named) if inspect.isclass(named) else _call(named))
    for member in block.members:
        yield f"{block.path}.{member}{_member(named, member)}"


def _member(owner: type, name: str) -> str:
    member: Any = inspect.getattr_static(owner, name)
    if isinstance(member, property | cached_property):
        getter = member.fget if isinstance(member, property) else member.func
        return f" -> {_annotation(getattr(getter, '__annotations__', {}).get('return'))}"
    function = inspect.unwrap(getattr(member, "__func__", member))
    if not inspect.isfunction(function):
        return ": attribute"
    return _call(function, skipped=not isinstance(member, staticmethod))


def _class(named: type) -> str:
    """Return the parameters of the constructor; of classes without one of their own, the bases."""
    if getattr(named, "_is_protocol", False):
        return ": protocol"
    if issubclass(named, BaseModel):
        fields = ", ".join(
            f"{name}{'' if field.is_required() else _default(field.default)}"
            for name, field in named.model_fields.items()
        )
        return f"(*, {fields})"
    if hasattr(named, "_fields"):
        return _call(named.__new__, skipped=True, returns=False)
    if "__init__" in vars(named):
        return _call(vars(named)["__init__"], skipped=True, returns=False)
    return ": class of " + ", ".join(identity(base) for base in named.__bases__)


def _call(function: Any, *, skipped: bool = False, returns: bool = True) -> str:
    """Return parameters and result; without the first parameter (self or cls) if it is ``skipped``."""
    signature = inspect.signature(function)
    texts, starred = list[str](), False
    for parameter in list(signature.parameters.values())[int(skipped) :]:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            texts.append("*")
        starred |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        texts.append(f"{prefix}{parameter.name}: {_annotation(parameter.annotation)}{_default(parameter.default)}")
    result = f" -> {_annotation(signature.return_annotation)}" if returns else ""
    return f"({', '.join(texts)}){result}"


def _annotation(annotation: Any) -> str:
    """Return a type as it is written in the source."""
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    if annotation is None or annotation is inspect.Parameter.empty:
        return "None" if annotation is None else "Any"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    """Return a default; one whose text could differ between machines or versions is ``…``."""
    if value is inspect.Parameter.empty:
        return ""
    plain = value is None or isinstance(value, str | int | float)
    plain = plain or (isinstance(value, tuple | list | dict) and not value)
    return f" = {value!r}" if plain else " = …"


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in signatures(blocks())), encoding="utf-8")
