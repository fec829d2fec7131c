"""Settings of one prediction, validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from regard.errors import ConfigError


def validated_settings(declared: type[BaseModel], settings: Mapping[str, Any]) -> BaseModel:
    """Return the settings of a prediction; raise ConfigError for an unknown setting or a value out of bounds."""
    chosen = {name: value for name, value in settings.items() if value is not None}
    for name in chosen:
        if name not in declared.model_fields:
            known = ", ".join(declared.model_fields)
            why = f"the settings of this model are {known}" if known else "this model has no settings"
            raise ConfigError(f"unknown setting {name}", where=name, why=why)
    try:
        return declared(**chosen)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise ConfigError(f"invalid value of the setting {name}", where=name, why=first["msg"]) from error
