"""Validation of config options against the signature of a constructor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from inspect import signature
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from regard.core.untrusted_files import shortened
from regard.core.wording import describe_failure, did_you_mean, pluralize
from regard.errors import ConfigError

TYPES = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False)
LARGEST = 1 << 20  # limit of integer options, because a config may be untrusted
LONGEST = 1 << 10  # limit of their lists
SEED = 1 << 63  # limit of seeds, which do not affect memory or time


def validate_options(
    make: type, options: Mapping[str, Any], *, excluded: Collection[str], where: str
) -> dict[str, Any]:
    """Return ``options`` converted to the types of ``make``'s constructor; parameters in ``excluded`` are not options.

    Raises ConfigError that names the key below ``where`` and the nearest known option, or the expected value.
    """
    known = [name for name in signature(make).parameters if name not in excluded]
    hints = get_type_hints(make.__init__)  # type: ignore[misc]
    fitting: dict[str, Any] = {}
    for name, value in options.items():
        key = f"{where}.{name}"
        if name not in known:
            why = f"options of this kind: {', '.join(known) or 'none'}"
            suggestion = did_you_mean(key, [f"{where}.{other}" for other in known])
            raise ConfigError(f"unknown key {key}", where=key, why=why, help=suggestion)
        try:
            fitting[name] = TypeAdapter(hints.get(name, Any), config=TYPES).validate_python(value)
        except ValidationError as error:
            why = describe_failure(error.errors(include_url=False)[0])
            raise ConfigError(f"{key} cannot be {shortened(repr(value))}", where=key, why=why) from error
        _require_bounded(fitting[name], key)
    return fitting


def _require_bounded(value: Any, key: str) -> None:
    """Raise ConfigError for an integer, alone or in a list, above the limit: it might determine memory or work."""
    limit = SEED if key.endswith(".seed") else LARGEST
    numbers = value if isinstance(value, tuple | list) else [value]
    for number in numbers:
        if isinstance(number, int) and abs(number) > limit:
            raise ConfigError(f"{key} cannot be {number:,}", where=key, why=f"the limit is {limit:,}")
    if len(numbers) > LONGEST:
        raise ConfigError(f"{key} has {pluralize(len(numbers), 'number')}", where=key, why=f"the limit is {LONGEST:,}")
