"""Config tables and request fields, derived from declared settings: see ``setting``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from regard.config.setting import Bounds, Setting, settings_of


class SettingsRequest(BaseModel):
    """Settings of a request; omitted ones are those of the model's config."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def of(cls, settings: BaseModel) -> Self:
        """Return the settings of a model as a request without explicitly set fields."""
        own = settings.model_dump(mode="json", include=set(cls.model_fields))
        return cast(Self, cls.model_construct(_fields_set=set(), **own))


def config_model(settings: type) -> type[BaseModel]:
    """Return a model with a field for each setting that the class itself declares, with its default."""
    known = settings_of(settings)
    fields: dict[str, Any] = {}
    for name in (name for name in known if name in vars(settings)):
        own = known[name]
        kind = _bounded(own.kind, own.bounds)
        fields[name] = (kind | None if own.optional else kind, _field(own, own.default))
    return create_model(settings.__name__, **fields)


def request_model(
    settings: type, *, only: Iterable[str] | None = None, base: type[BaseModel] = SettingsRequest
) -> type[BaseModel]:
    """Return a model with a field for each setting that a request may set, unset by default.

    Args:
        settings: class of declarations.
        only: the names of the settings; default: all.
        base: class of the model.
    """
    fields: dict[str, Any] = {}
    for name, known in settings_of(settings).items():
        if not known.config_only and (only is None or name in only):
            kind = list[str] if known.kind == tuple[str, ...] else known.kind
            fields[name] = (_bounded(kind, known.request or known.bounds) | None, _field(known, None))
    return create_model(settings.__name__.replace("Settings", "Request"), __base__=base, **fields)


def _field(setting: Setting, default: Any) -> Any:
    extra: Any = {"group": setting.group} | ({"unit": setting.unit} if setting.unit else {})
    examples = None if setting.example is None else [setting.example]
    return Field(default, description=f"{setting.help}.", examples=examples, json_schema_extra=extra)


def _bounded(kind: Any, bounds: Bounds) -> Any:
    """Return a type with its bounds; in a config, a list of texts may be a single text."""
    text = Annotated[str, Field(min_length=1, max_length=bounds.characters)]
    if kind is str:
        return text
    if kind in (list[str], tuple[str, ...]):
        if kind == list[str]:
            return Annotated[list[text], Field(max_length=bounds.texts)]
        return Annotated[tuple[text, ...], BeforeValidator(_as_list)]
    return Annotated[kind, Field(ge=bounds.low, gt=bounds.above, le=bounds.high)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value
