"""The run that a training goes on from: what its config gives to the new one, and what must be the same. No torch.

Whatever of the source decides what its weights mean (the network, and how text becomes numbers) lies beneath the new
config, so that the saved one says all of it and the source is not needed again. That is all of a network, or the part
that reads: its encoder, or the layers of a language model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import ValidationError

from regard.config.toml_layers import Key, TomlLayer, dotted
from regard.errors import ConfigError
from regard.models.origin_config import Origin
from regard.models.stack_config import StackConfig
from regard.runs.run_config import RunConfig, StartingPoint

# Keys of training: no weight knows them.
FREE = {"dropout", "attention_dropout", "feed_forward_dropout", "feed_forward_chunks", "from", "frozen"}


def stated_start(values: Mapping[str, Any]) -> StartingPoint | None:
    """The start that merged tables of a config name; None where there is none, or where it is for the checks."""
    model = values.get("model")
    encoder = model.get("encoder") if isinstance(model, Mapping) else None
    tables: dict[Literal["all", "encoder"], Any] = {"all": model, "encoder": encoder}
    for part, table in tables.items():
        given = table.get("from") if isinstance(table, Mapping) else None
        try:
            if given is not None:
                return StartingPoint(Origin.model_validate(given), part)
        except ValidationError:
            return None
    return None


def layer_beneath(source: RunConfig, config: type[RunConfig], kind: str, start: StartingPoint) -> TomlLayer:
    """Return the part of the source's config that is the base of the new one, of class ``config``.

    Raises ConfigError for a source that does not fit.
    """
    if start.part == "encoder":
        tables = _reading_tables(source, config.encoder_obstacle, kind, start)
        return TomlLayer(start.origin.run, tables, {})
    if source.task.kind != kind:
        raise ConfigError(
            f"a {kind} model cannot start from {start.origin.run}",
            where=start.key,
            why=f"that run is of {source.task.kind}",
            help=f"name a {kind} run, or set task = {source.task.kind!r}; "
            "classifiers, taggers and masked models can take the encoder alone: model.encoder.from",
        )
    nets = {name: source.model_dump(mode="json", exclude_none=True)[name] for name in source.nets()}
    data = source.data.model_dump(mode="json", exclude_none=True)
    taken = {key: data[key] for key in (*source.codec_keys, *source.inherited_keys) if key in data}
    for table in nets.values():
        table.pop("from", None)
        for side in table.values():
            if isinstance(side, dict):
                side.pop("from", None)
                side.pop("frozen", None)
    return TomlLayer(start.origin.run, nets | {"data": taken}, {})


def _reading_tables(source: RunConfig, obstacle: str | None, kind: str, start: StartingPoint) -> dict[str, Any]:
    """Tables of the encoder and of its vocabulary, as a config whose network is an encoder has them."""
    what = f"a {kind} model cannot take the encoder of {start.origin.run}"
    if obstacle is not None:
        help = f"regard train with model.from continues a whole {kind} model"
        raise ConfigError(what, where=start.key, why=obstacle, help=help)
    side = _reading_side(source)
    if side is None:
        raise ConfigError(what, where=start.key, why=f"that run is of {source.task.kind}, and has none")
    table = side.model_dump(mode="json", exclude_none=True)
    if table.pop("embedding_scale", None) is not None:
        why = "it multiplies embeddings by another number than √width, as imported GPT-2 does, which no encoder can"
        raise ConfigError(what, where=start.key, why=why)
    for key in ("from", "frozen"):
        table.pop(key, None)
    _, tokenizer = source.reads_with
    return {"model": {"encoder": table}, "data": {"tokenizer": tokenizer.model_dump(mode="json", exclude_none=True)}}


def _reading_side(config: RunConfig) -> StackConfig | None:
    """The encoder of a network, or the only stack of one that has no encoder."""
    nets = [getattr(config, name) for name in config.nets()]
    sides = [net.sides for net in nets][:1]
    found: StackConfig | None = getattr(nets[0], sides[0][0], None) if sides else None
    return found


def require_agreement(config: RunConfig, source: RunConfig, start: StartingPoint) -> None:
    """ConfigError where the config says something else of the network or the vocabulary than the source's weights."""
    differing = list(_differences(config, source) if start.part == "all" else _reading_differences(config, source))
    if differing:
        key, there, here = differing[0]
        others = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        kept = "network and vocabulary are" if start.part == "all" else "encoder and vocabulary are"
        raise ConfigError(
            f"{dotted(key)} cannot be {here!r}{others}",
            where=dotted(key),
            why=f"the weights of {start.origin.run} are of a model with {there!r}",
            help=f"leave it out: {kept} those of {start.key}; or train without {start.key}",
        )


def _differences(config: RunConfig, source: RunConfig) -> Iterator[tuple[Key, Any, Any]]:
    for name in source.nets():
        yield from _of_tables((name,), getattr(source, name), getattr(config, name))
    for field in source.codec_keys:
        here, there = getattr(config.data, field), getattr(source.data, field)
        if here != there:
            yield ("data", field), there, here


def _reading_differences(config: RunConfig, source: RunConfig) -> Iterator[tuple[Key, Any, Any]]:
    there, here = _reading_side(source), _reading_side(config)
    if there is not None and here is not None:
        pairs = _of_tables(("model", "encoder"), there, here)
        yield from (each for each in pairs if each[0][-1] != "embedding_scale")
    read, made = source.reads_with[1], config.reads_with[1]
    if read != made:
        yield ("data", "tokenizer"), read, made


def _of_tables(prefix: Key, source: Any, config: Any) -> Iterator[tuple[Key, Any, Any]]:
    """Keys of two tables that differ, but for those that no weight knows: there, here."""
    there, here = dict(_leaves(source.model_dump(), prefix)), dict(_leaves(config.model_dump(), prefix))
    for key in dict.fromkeys([*here, *there]):
        if here.get(key) != there.get(key) and not FREE & {*key}:
            yield key, there.get(key), here.get(key)


def _leaves(table: Mapping[str, Any], prefix: Key = ()) -> Iterator[tuple[Key, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*prefix, name))
        else:
            plain = name == "execution" and value == "checkpointed"  # the same function of the same weights
            yield (*prefix, name), "plain" if plain else value
