"""The run that a training starts from: inherited config keys, and keys that must agree. Imports no torch.

Everything that determines the meaning of the source's weights (the network and the tokenizer) is a base layer of the
new config. The saved config is therefore complete, and the source is not needed again. The inherited part is the whole
network, or the part that reads: its encoder, or the layers of a language model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from regard.config.toml_layers import Key, TomlLayer, dotted
from regard.errors import ConfigError
from regard.models.origin_config import Origin
from regard.models.stack_config import StackConfig
from regard.runs.run_config import RunConfig, StartingPoint

# Keys of training, which do not change the meaning of weights.
FREE = {"dropout", "attention_dropout", "feed_forward_dropout", "feed_forward_chunks", "from", "frozen",
        "lora"}  # fmt: skip


def parse_start(values: Mapping[str, Any]) -> StartingPoint | None:
    """Return the starting point in merged tables of a config; None if it is missing or invalid.

    Validation of the whole config reports invalid ones later.
    """
    model = values.get("model")
    encoder = model.get("encoder") if isinstance(model, Mapping) else None
    tables: dict[Literal["all", "encoder"], Any] = {"all": model, "encoder": encoder}
    for part, table in tables.items():
        origin = table.get("from") if isinstance(table, Mapping) else None
        try:
            if origin is not None:
                return StartingPoint(Origin.model_validate(origin), part)
        except ValidationError:
            return None
    return None


def base_layer(source: RunConfig, config: type[RunConfig], kind: str, start: StartingPoint) -> TomlLayer:
    """Return the part of the source's config that is the base of the new config, of class ``config``.

    Raises ConfigError if the source does not fit.
    """
    if start.part == "encoder":
        tables = _reading_tables(source, config.encoder_obstacle, kind, start)
        return TomlLayer(start.origin.run, tables, {})
    if source.task.kind != kind:
        raise ConfigError(
            f"a {kind} model cannot start from {start.origin.run}",
            where=start.key,
            why=f"the task of that run is {source.task.kind}",
            help=f"name a {kind} run, or set task = {source.task.kind!r}; "
            "classifiers, taggers and masked models can use only the encoder: model.encoder.from",
        )
    nets = {name: source.model_dump(mode="json", exclude_none=True)[name] for name in source.nets()}
    data = source.data.model_dump(mode="json", exclude_none=True)
    inherited = {key: data[key] for key in (*source.codec_keys, *source.inherited_keys) if key in data}
    for table in nets.values():
        table.pop("from", None)
        table.pop("lora", None)
        for side in table.values():
            if isinstance(side, dict):
                side.pop("from", None)
                side.pop("frozen", None)
    sections = {name: section for name in source.inherited_sections if (section := getattr(source, name)) is not None}
    dumped = {name: section.model_dump(mode="json", exclude_none=True) for name, section in sections.items()}
    return TomlLayer(start.origin.run, nets | {"data": inherited} | dumped, {})


def _reading_tables(source: RunConfig, obstacle: str | None, kind: str, start: StartingPoint) -> dict[str, Any]:
    """Return the tables of the encoder and of its vocabulary, for a config whose network is an encoder."""
    what = f"a {kind} model cannot use the encoder of {start.origin.run}"
    if obstacle is not None:
        help = f"continue a whole {kind} model with model.from"
        raise ConfigError(what, where=start.key, why=obstacle, help=help)
    side = _reading_side(source)
    if side is None:
        raise ConfigError(
            what, where=start.key, why=f"the task of that run is {source.task.kind}, which has no encoder"
        )
    table = side.model_dump(mode="json", exclude_none=True)
    for key in ("from", "frozen"):
        table.pop(key, None)
    _, tokenizer = source.reads_with
    return {"model": {"encoder": table}, "data": {"tokenizer": tokenizer.model_dump(mode="json", exclude_none=True)}}


def _reading_side(config: RunConfig) -> StackConfig | None:
    """Return the encoder of a network, or its only stack if it has no encoder."""
    nets = [getattr(config, name) for name in config.nets()]
    sides = [net.sides for net in nets][:1]
    side: StackConfig | None = getattr(nets[0], sides[0][0], None) if sides else None
    return side


def require_agreement(config: RunConfig, source: RunConfig, start: StartingPoint) -> None:
    """Raise ConfigError if the config of the network or the vocabulary differs from that of the source's weights."""
    differing = list(_differences(config, source) if start.part == "all" else _reading_differences(config, source))
    if differing:
        key, expected, actual = differing[0]
        more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        inherited = "network and vocabulary are" if start.part == "all" else "encoder and vocabulary are"
        raise ConfigError(
            f"{dotted(key)} cannot be {actual!r}{more}",
            where=dotted(key),
            why=f"the weights of {start.origin.run} were trained with {expected!r}",
            help=f"omit it, as {inherited} inherited by {start.key}; or train without {start.key}",
        )


def _differences(config: RunConfig, source: RunConfig) -> Iterator[tuple[Key, Any, Any]]:
    for name in source.nets():
        yield from _of_tables((name,), getattr(source, name), getattr(config, name))
    for field in source.codec_keys:
        actual, expected = getattr(config.data, field), getattr(source.data, field)
        if actual != expected:
            yield ("data", field), expected, actual


def _reading_differences(config: RunConfig, source: RunConfig) -> Iterator[tuple[Key, Any, Any]]:
    source_side, side = _reading_side(source), _reading_side(config)
    if source_side is not None and side is not None:
        yield from _of_tables(("model", "encoder"), source_side, side)
    source_tokenizer, tokenizer = source.reads_with[1], config.reads_with[1]
    if source_tokenizer != tokenizer:
        yield ("data", "tokenizer"), source_tokenizer, tokenizer


def _of_tables(prefix: Key, source: Any, config: Any) -> Iterator[tuple[Key, Any, Any]]:
    """Yield the keys with different values in two tables, except those of training: key, source's value, new value."""
    source_values, values = dict(_leaves(source.model_dump(), prefix)), dict(_leaves(config.model_dump(), prefix))
    tables = {name: field.default for name, field in type(config).model_fields.items()}
    plain = {name: value.model_dump() if isinstance(value, BaseModel) else value for name, value in tables.items()}
    defaults = dict(_leaves(plain, prefix))
    for key in dict.fromkeys([*values, *source_values]):
        # A decoder lacks the options of encoders, whose defaults are its own behavior.
        unset = key not in source_values and values[key] == defaults.get(key)
        if values.get(key) != source_values.get(key) and not unset and not FREE & {*key}:
            yield key, source_values.get(key), values.get(key)


def _leaves(table: Mapping[str, Any], prefix: Key = ()) -> Iterator[tuple[Key, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*prefix, name))
        else:
            plain = name == "execution" and value == "checkpointed"  # computes the same function
            yield (*prefix, name), "plain" if plain else value
