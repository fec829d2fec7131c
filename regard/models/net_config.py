"""Config of a network of sides, each of which owns its keys. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, get_args

from pydantic import ConfigDict, model_validator

from regard.config.explain import InvalidCombination
from regard.config.toml_layers import Key, merge_layer, move_key
from regard.core.wording import pluralize
from regard.models.attention_config import OTHER_MIXERS, ROTATED_MIXERS, kind_of
from regard.models.origin_config import EncoderStart, Origin, Started
from regard.models.position_config import RELATIVE
from regard.models.stack_config import StackConfig

# Old spellings of keys below `model`, which every release reads.
RENAMED: dict[Key, Key] = {
    ("encoder_layers",): ("encoder", "layers"),
    ("decoder_layers",): ("decoder", "layers"),
    ("encoder", "self_attention"): ("encoder", "mixer"),
    ("decoder", "self_attention"): ("decoder", "mixer"),
    ("self_attention",): ("mixer",),
}


class NetConfig(Started):
    """Encoder, decoder, or both, and what they share.

    A key of a side that stands beside the sides (``model.width``) is the default of each side whose kind has such a
    key; ``preset`` names defaults for keys that are set nowhere.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sides: ClassVar[tuple[str, ...]]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]
    renamed: ClassVar[Mapping[Key, Key]] = RENAMED

    @property
    def origin(self) -> Origin | None:
        """The run whose weights it starts from, ``from`` in a config; None for random ones."""
        found: Origin | None = getattr(self, "from")
        return found

    @classmethod
    def stacks(cls, side: str) -> tuple[type[StackConfig], ...]:
        """Kinds of config that a side may have."""
        return tuple(_stacks_in(cls.model_fields[side].annotation))

    @classmethod
    def shared_keys(cls) -> set[str]:
        """Keys of the sides, each of which may stand beside them."""
        keys = {key for side in cls.sides for kind in cls.stacks(side) for key in kind.model_fields}
        return (keys | {"longest"}) - set(cls.model_fields)

    @classmethod
    def moved(cls, key: Key) -> Key:
        """The key that an old spelling stands for; any other key unchanged."""
        for old, new in cls.renamed.items():
            if key[: len(old)] == old:
                return new + key[len(old) :]
        return key

    @classmethod
    def normalized(cls, table: Mapping[str, Any]) -> dict[str, Any]:
        """Table of one file, old spellings under their new keys and a side as a table, so that files merge by key."""
        values = dict(table)
        for side in cls.sides:
            if isinstance(values.get(side), str):
                values[side] = {"kind": values[side]}
        for old, new in cls.renamed.items():
            values = move_key(values, old, new)
        return values

    @classmethod
    def replaced(cls, key: Key) -> Iterator[Key]:
        """Keys below a table of sides that ``key`` is the default of: a later ``model.width`` is that of both sides."""
        if key and key[0] in cls.shared_keys():
            yield from ((side, *key) for side in cls.sides)

    @property
    def encoder_origin(self) -> Origin | None:
        """The run whose reading part its encoder starts from."""
        return next((encoder.origin for encoder in self._encoders()), None)

    def _encoders(self) -> Iterator[Any]:
        """The encoder, of networks that have one."""
        yield from (getattr(self, side) for side in self.sides if isinstance(getattr(self, side), EncoderStart))

    @model_validator(mode="after")
    def _check_start(self) -> NetConfig:
        for encoder in self._encoders():
            starts, key = encoder.origin is not None, "model.encoder.frozen"
            if starts and self.origin is not None:
                why = "the encoder is part of the network that starts from another run"
                raise InvalidCombination("model.encoder.from", "model.from", why=why, help="leave one of them out")
            if encoder.frozen != "none" and not starts:
                why = "weights that begin at random have to learn: only one with model.encoder.from stays as it is"
                raise InvalidCombination(key, why=why, help=f"--set {key}=none")
            if isinstance(encoder.frozen, int) and encoder.frozen > encoder.depth:
                raise InvalidCombination(
                    key, why=f"it has {pluralize(encoder.depth, 'layer')}", help=f"--set {key}=all"
                )
        return self

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        given = {key: value for key, value in given.items() if value is not None or key in cls.model_fields}
        filled = cls._preset(given)
        merge_layer(filled, cls.normalized(given), cls.replaced)
        shared = {key: filled.pop(key) for key in cls.shared_keys() & filled.keys()}
        tables = {side: cls._side(side, filled.get(side, {}), shared) for side in cls.sides}
        position = kind_of(shared.get("position"))
        if position in RELATIVE and not any(map(_attends_to_itself, tables.values())):
            raise ValueError(f"{position} positions are for self-attention, and there is none")
        return filled | tables

    @classmethod
    def _preset(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Values of the preset, with the kind of each side; a side of another kind in the config replaces that side."""
        preset = cls.presets.get(str(given.get("preset")), {})
        filled: dict[str, Any] = {}
        merge_layer(filled, preset, cls.replaced)
        kind = preset.get("kind")
        if kind is not None:
            if given.get("kind", kind) != kind:
                raise InvalidCombination(
                    "model.kind",
                    "model.preset",
                    why=f"the preset {given['preset']} is {kind}",
                    help="another model.preset, or none; or a kind for one side alone: "
                    "--set model.encoder.kind=transformer",
                )
            filled |= {side: {"kind": kind} | filled.get(side, {}) for side in cls.sides}
        return filled

    @classmethod
    def _side(cls, side: str, own: Any, shared: Mapping[str, Any]) -> Any:
        """Table of a side with the shared keys that its kind has; what is no table is left for the checks."""
        if not isinstance(own, dict):
            return own
        kinds = {kind.model_fields["kind"].default: kind for kind in cls.stacks(side)}
        kind = own.get("kind", shared.get("kind", next(iter(kinds))))
        stack = kinds.get(kind) if isinstance(kind, str) else None
        return {"kind": kind} | (own if stack is None else stack.with_shared(shared, own))


def _attends_to_itself(side: Any) -> bool:
    """Return whether a side has attention to itself, for relative positions to act in."""
    mixer = side.get("mixer") if isinstance(side, dict) else getattr(side, "mixer", None)
    kind = kind_of(mixer)
    without = isinstance(kind, str) and kind in OTHER_MIXERS.keys() - ROTATED_MIXERS
    return kind_of(side) == "transformer" and not without


def _stacks_in(annotation: Any) -> Iterator[type[StackConfig]]:
    if isinstance(annotation, type) and issubclass(annotation, StackConfig):
        yield annotation
    for inner in get_args(annotation):
        yield from _stacks_in(inner)
