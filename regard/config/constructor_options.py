"""Validation of config options against the signature of the constructor that takes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from inspect import signature
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from regard.core.wording import describe_failure, did_you_mean
from regard.errors import ConfigError

__all__ = ["validate_options"]

TYPES = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False)


def validate_options(make: type, options: Mapping[str, Any], *, given: Collection[str], where: str) -> dict[str, Any]:
    """Return ``options`` converted to the types of ``make``'s constructor; parameters in ``given`` are no options.

    Raises ConfigError that names the key below ``where`` and the nearest known option, or the expected value.
    """
    known = [name for name in signature(make).parameters if name not in given]
    hints = get_type_hints(make.__init__)  # type: ignore[misc]
    fitting: dict[str, Any] = {}
    for name, value in options.items():
        key = f"{where}.{name}"
        if name not in known:
            why = f"options of this kind: {', '.join(known) or 'none'}"
            meant = did_you_mean(key, [f"{where}.{other}" for other in known])
            raise ConfigError(f"unknown key {key}", where=key, why=why, help=meant)
        try:
            fitting[name] = TypeAdapter(hints.get(name, Any), config=TYPES).validate_python(value)
        except ValidationError as error:
            why = describe_failure(error.errors(include_url=False)[0])
            raise ConfigError(f"{key} cannot be {value!r}", where=key, why=why) from error
    return fitting
