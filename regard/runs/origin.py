"""The run that a training goes on from: what its config gives to the new one, and what must be the same. No torch.

Whatever of the source decides what its weights mean (the network, and how text becomes numbers) lies beneath the new
config, so that the saved one says all of it and the source is not needed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from regard.config.toml_layers import Key, TomlLayer, dotted
from regard.errors import ConfigError
from regard.models.origin_config import Origin

if TYPE_CHECKING:
    from regard.runs.config import RunConfig

__all__ = ["layer_beneath", "require_agreement", "stated_origin"]

FREE = {
    "dropout",
    "attention_dropout",
    "feed_forward_dropout",
    "execution",
    "from",
}  # of training: no weight knows them


def stated_origin(values: Mapping[str, Any]) -> Origin | None:
    """The origin that merged tables of a config name; None where there is none, or where it is for the checks."""
    model = values.get("model")
    given = model.get("from") if isinstance(model, Mapping) else None
    try:
        return None if given is None else Origin.model_validate(given)
    except ValidationError:
        return None


def layer_beneath(source: RunConfig, kind: str, origin: Origin) -> TomlLayer:
    """The part of the source's config that lies beneath the new one; ConfigError for a source of another task."""
    if source.task.kind != kind:
        raise ConfigError(
            f"a {kind} model cannot start from {origin.run}",
            where="model.from",
            why=f"that run is of {source.task.kind}",
            help=f"name a {kind} run, or set task = {source.task.kind!r}",
        )
    nets = {name: source.model_dump(mode="json", exclude_none=True)[name] for name in source.nets()}
    data = source.data.model_dump(mode="json", exclude_none=True)
    taken = {key: data[key] for key in (*source.codec_keys, *source.inherited_keys) if key in data}
    for table in nets.values():
        table.pop("from", None)
    return TomlLayer(origin.run, nets | {"data": taken}, {})


def require_agreement(config: RunConfig, source: RunConfig, origin: Origin) -> None:
    """ConfigError where the config says something else of the network or the vocabulary than the source's weights."""
    differing = list[tuple[Key, Any, Any]]()
    for name in source.nets():
        pairs = dict(_leaves(getattr(config, name).model_dump())), dict(_leaves(getattr(source, name).model_dump()))
        differing += [((name, *key), there, here) for key, here, there in _differing(*pairs) if not FREE & {*key}]
    for field in source.codec_keys:
        here, there = getattr(config.data, field), getattr(source.data, field)
        if here != there:
            differing.append((("data", field), there, here))
    if differing:
        key, there, here = differing[0]
        others = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        raise ConfigError(
            f"{dotted(key)} cannot be {here!r}{others}",
            where=dotted(key),
            why=f"the weights of {origin.run} are of a model with {there!r}",
            help="leave it out: network and vocabulary are those of model.from; or train without model.from",
        )


def _leaves(table: Mapping[str, Any], prefix: Key = ()) -> Iterator[tuple[Key, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*prefix, name))
        else:
            yield (*prefix, name), value


def _differing(one: Mapping[Key, Any], other: Mapping[Key, Any]) -> Iterator[tuple[Key, Any, Any]]:
    for key in dict.fromkeys([*one, *other]):
        if one.get(key) != other.get(key):
            yield key, one.get(key), other.get(key)
