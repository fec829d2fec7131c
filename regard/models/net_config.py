"""Config of a network with one or two sides, each with its own keys. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, get_args

from pydantic import ConfigDict, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.config.toml_layers import Key, merge_layer, move_key
from regard.core.wording import pluralize
from regard.models.attention_config import OTHER_MIXERS, ROTATED_MIXERS, kind_of
from regard.models.lora_config import LoraConfig
from regard.models.origin_config import EncoderStart, Origin, Started
from regard.models.position_config import RELATIVE
from regard.models.stack_config import StackConfig

# Old names of keys below `model`, which every release accepts.
RENAMED: dict[Key, Key] = {
    ("encoder_layers",): ("encoder", "layers"),
    ("decoder_layers",): ("decoder", "layers"),
    ("encoder", "self_attention"): ("encoder", "mixer"),
    ("decoder", "self_attention"): ("decoder", "mixer"),
    ("self_attention",): ("mixer",),
}


class NetConfig(Started):
    """Encoder, decoder, or both, and their shared keys.

    A key of a side that is set directly below ``model`` (``model.width``) is the default of each side whose kind has
    this key. ``preset`` provides defaults for keys that are set nowhere.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sides: ClassVar[tuple[str, ...]]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]
    renamed: ClassVar[Mapping[Key, Key]] = RENAMED

    lora: LoraConfig | None = Field(
        None,
        description="with `from` of the network or of its encoder: freeze these weights, and train low-rank updates of "
        "their matrices and the new parts",
    )

    @property
    def origin(self) -> Origin | None:
        """The run whose weights it starts from, ``from`` in a config; None for random weights."""
        origin: Origin | None = getattr(self, "from")
        return origin

    @classmethod
    def stacks(cls, side: str) -> tuple[type[StackConfig], ...]:
        """Return the types of config that a side may have."""
        return tuple(_stacks_in(cls.model_fields[side].annotation))

    @classmethod
    def shared_keys(cls) -> set[str]:
        """Return the keys of the sides that may be set directly below ``model``."""
        keys = {key for side in cls.sides for kind in cls.stacks(side) for key in kind.model_fields}
        return (keys | {"longest"}) - set(cls.model_fields)

    @classmethod
    def moved(cls, key: Key) -> Key:
        """Return the current key for an old one; any other key unchanged."""
        for old, new in cls.renamed.items():
            if key[: len(old)] == old:
                return new + key[len(old) :]
        return key

    @classmethod
    def normalized(cls, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the table of one file with current keys and each side as a table, to merge files by key."""
        values = dict(table)
        for side in cls.sides:
            if isinstance(values.get(side), str):
                values[side] = {"kind": values[side]}
        for old, new in cls.renamed.items():
            values = move_key(values, old, new)
        return values

    @classmethod
    def replaced(cls, key: Key) -> Iterator[Key]:
        """Yield the keys of the sides that a shared ``key`` overrides.

        A later ``model.width`` applies to both sides.
        """
        if key and key[0] in cls.shared_keys():
            yield from ((side, *key) for side in cls.sides)

    @property
    def encoder_origin(self) -> Origin | None:
        """The run that the encoder's weights start from."""
        return next((encoder.origin for encoder in self._encoders()), None)

    def _encoders(self) -> Iterator[Any]:
        """Yield the encoder of networks that have one."""
        yield from (getattr(self, side) for side in self.sides if isinstance(getattr(self, side), EncoderStart))

    @model_validator(mode="after")
    def _check_adapters(self) -> NetConfig:
        if self.lora is None:
            return self
        if self.origin is None and self.encoder_origin is None:
            why = "random weights have to be trained: only weights of another run can be frozen and adapted"
            key = "model.encoder.from" if any(self._encoders()) else "model.from"
            raise InvalidCombination("model.lora", key, why=why, help=f"--set {key}=RUN, or remove model.lora")
        if any(encoder.frozen != "none" for encoder in self._encoders()):
            why = "model.lora freezes all weights that training starts from"
            key = "model.encoder.frozen"
            raise InvalidCombination(key, "model.lora", why=why, help=f"--set {key}=none, or remove model.lora")
        return self

    @model_validator(mode="after")
    def _check_start(self) -> NetConfig:
        for encoder in self._encoders():
            starts, key = encoder.origin is not None, "model.encoder.frozen"
            if starts and self.origin is not None:
                why = "model.from already includes the encoder"
                raise InvalidCombination("model.encoder.from", "model.from", why=why, help="remove one of them")
            if encoder.frozen != "none" and not starts:
                why = "random weights have to be trained: only an encoder with model.encoder.from can be frozen"
                raise InvalidCombination(key, why=why, help=f"--set {key}=none")
            if isinstance(encoder.frozen, int) and encoder.frozen > encoder.depth:
                raise InvalidCombination(
                    key, why=f"it has {pluralize(encoder.depth, 'layer')}", help=f"--set {key}=all"
                )
        return self

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, table: Any) -> Any:
        if not isinstance(table, dict):
            return table
        table = {key: value for key, value in table.items() if value is not None or key in cls.model_fields}
        filled = cls._preset(table)
        merge_layer(filled, cls.normalized(table), cls.replaced)
        shared = {key: filled.pop(key) for key in cls.shared_keys() & filled.keys()}
        tables = {side: cls._side(side, filled.get(side, {}), shared) for side in cls.sides}
        position = kind_of(shared.get("position"))
        if position in RELATIVE and not any(map(_attends_to_itself, tables.values())):
            raise ValueError(f"{position} positions require self-attention, which no side of this model has")
        return filled | tables

    @classmethod
    def _preset(cls, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the preset, with the kind of each side.

        A side with another kind in the config replaces that of the preset.
        """
        preset = cls.presets.get(str(table.get("preset")), {})
        filled: dict[str, Any] = {}
        merge_layer(filled, preset, cls.replaced)
        kind = preset.get("kind")
        if kind is not None:
            if table.get("kind", kind) != kind:
                raise InvalidCombination(
                    "model.kind",
                    "model.preset",
                    why=f"the preset {table['preset']} has kind {kind}",
                    help="set another model.preset or none, or the kind of one side: "
                    "--set model.encoder.kind=transformer",
                )
            filled |= {side: {"kind": kind} | filled.get(side, {}) for side in cls.sides}
        return filled

    @classmethod
    def _side(cls, side: str, own: Any, shared: Mapping[str, Any]) -> Any:
        """Return the table of a side with the shared keys of its kind; any other value is left to validation."""
        if not isinstance(own, dict):
            return own
        kinds = {kind.model_fields["kind"].default: kind for kind in cls.stacks(side)}
        usual = getattr(cls.model_fields[side].default, "kind", None) or next(iter(kinds))
        kind = own.get("kind", shared.get("kind", usual))
        stack = kinds.get(kind) if isinstance(kind, str) else None
        return {"kind": kind} | (own if stack is None else stack.with_shared(shared, own))


def _attends_to_itself(side: Any) -> bool:
    """Return whether a side has self-attention, which relative positions require."""
    mixer = side.get("mixer") if isinstance(side, dict) else getattr(side, "mixer", None)
    kind = kind_of(mixer)
    without = isinstance(kind, str) and kind in OTHER_MIXERS.keys() - ROTATED_MIXERS
    return kind_of(side) == "transformer" and not without


def _stacks_in(annotation: Any) -> Iterator[type[StackConfig]]:
    if isinstance(annotation, type) and issubclass(annotation, StackConfig):
        yield annotation
    for inner in get_args(annotation):
        yield from _stacks_in(inner)
