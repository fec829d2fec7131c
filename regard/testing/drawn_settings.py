"""Random prediction settings, from those that a predictor declares."""

from __future__ import annotations

from random import Random
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from regard.core.predictor_interface import interface_of
from regard.errors import ConfigError

WIDEST = 6  # range of numbers without an upper bound
TRIALS = 50  # attempts, as some settings exclude each other


def drawn_settings(predictor: Any, source: Random) -> dict[str, Any]:
    """Return random settings of a call, each set or omitted; {} for a predictor without settings.

    Args:
        predictor: the predictor.
        source: source of randomness.
    """
    declared = interface_of(predictor).settings
    if declared is None:
        return {}
    for _ in range(TRIALS):
        settings = drawn_values(type(declared), source)
        if _fits(predictor, settings):
            return settings
    return {}


def drawn_values(declared: type[BaseModel], source: Random) -> dict[str, Any]:
    """Return random values for the fields of a model, each within its bounds or omitted; ``seed`` is always omitted."""
    values = {
        name: _value(field.annotation, field.metadata, source)
        for name, field in declared.model_fields.items()
        if name != "seed" and source.random() < 0.4
    }
    return {name: value for name, value in values.items() if value is not None}


def _fits(predictor: Any, settings: dict[str, Any]) -> bool:
    """Return whether the predictor accepts this combination of settings."""
    check = getattr(predictor, "adjusted", None)
    try:
        if check is not None:
            check({name: value for name, value in settings.items() if name != "greedy"})
    except ConfigError:
        return False
    return True


def _value(annotation: Any, metadata: list[Any], source: Random) -> Any:
    """Return a random value of a type within its bounds; None for unsupported types."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        return _value(inner, [*metadata, *_unpacked(more)], source)
    if origin in (Union, UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        return _value(members[0], metadata, source)
    if origin is Literal:
        return source.choice(get_args(annotation))
    if annotation is bool:
        return source.random() < 0.5
    if annotation in (int, float):
        return _number(annotation, metadata, source)
    if origin in (list, tuple):
        return ["a"] if get_args(annotation)[0] is str or get_origin(get_args(annotation)[0]) is Annotated else None
    return None


def _unpacked(metadata: list[Any]) -> list[Any]:
    """Return the bounds in pydantic's ``Field`` inside Annotated."""
    return [bound for entry in metadata for bound in getattr(entry, "metadata", [entry])]


def _number(kind: type, metadata: list[Any], source: Random) -> Any:
    bounds = {
        name: getattr(entry, name) for entry in metadata for name in ("ge", "gt", "le", "lt") if hasattr(entry, name)
    }
    least = bounds.get("ge", bounds.get("gt", 0))
    largest = min(bounds.get("le", bounds.get("lt", least + WIDEST)), least + WIDEST)
    if kind is int:
        return source.randint(int(least) + ("gt" in bounds), max(int(largest) - ("lt" in bounds), int(least)))
    return least + (largest - least) * (0.05 + 0.9 * source.random())
