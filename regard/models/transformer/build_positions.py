"""What self-attention is told of positions, from a config: for one stack of layers at a time."""

from __future__ import annotations

from inspect import signature
from typing import NamedTuple

from regard.attention.catalogue import MECHANISMS
from regard.attention.positions.distance_bias import Alibi, EnergyBias, T5CausalBias, T5TwoSidedBias
from regard.attention.positions.rotary import Rotary
from regard.errors import ConfigError
from regard.models.attention_config import MechanismConfig
from regard.models.configuration import ModelConfig
from regard.models.position_config import AlibiConfig, PositionConfig, RotaryConfig, ShawConfig, T5Config

__all__ = ["AttentionSite", "place_of"]


class AttentionSite(NamedTuple):
    """Where self-attention stands in a stack: what the config says there, under which key, and of positions.

    One for all layers of a stack, which thus share a table of T5.
    """

    config: MechanismConfig
    where: str
    bias: EnergyBias | None = None
    rotary: Rotary | None = None


def place_of(model: ModelConfig, own: MechanismConfig | None, *, where: str, causal: bool) -> AttentionSite:
    """``own`` is what an encoder or decoder says for itself under the key ``where``, else the model's word counts.

    Raises ConfigError where the mechanism has no place for the kind of position.
    """
    place = AttentionSite(own, where) if own else AttentionSite(model.self_attention, "model.self_attention")
    position = model.position
    heads = place.config.heads or model.heads
    try:
        if isinstance(position, RotaryConfig):
            width = model.key_width or model.width // heads
            return place._replace(rotary=Rotary(width, layout=position.layout, base=position.base))
        if isinstance(position, ShawConfig):
            return place._replace(config=_with_vectors(place, position))
        bias = _bias(position, heads, causal=causal)
    except ValueError as problem:
        raise ConfigError("these positions cannot be", where="model.position", why=str(problem)) from problem
    if bias is not None and not _takes_bias(place.config.kind):
        raise _no_place(place, position, f"it adds a bias to energies, which {place.config.kind!r} attention cannot")
    return place._replace(bias=bias)


def _bias(position: PositionConfig, heads: int, *, causal: bool) -> EnergyBias | None:
    if isinstance(position, AlibiConfig):
        return Alibi()
    if isinstance(position, T5Config):
        kind = T5CausalBias if causal else T5TwoSidedBias
        return kind(heads, buckets=position.buckets, distance=position.distance)
    return None


def _with_vectors(place: AttentionSite, position: ShawConfig) -> MechanismConfig:
    """Dot becomes Shaw's mechanism, with the options of both; the place's own count more."""
    if place.config.kind not in ("dot", "shaw"):
        why = f"it is a dot product with vectors for distances, and {place.config.kind!r} attention is none"
        raise _no_place(place, position, why)
    whole = {"clip": position.clip, "values": position.values} | place.config.model_dump(exclude={"kind"})
    return MechanismConfig.model_validate({"kind": "shaw"} | whole)


def _takes_bias(kind: str) -> bool:
    return (
        kind not in MECHANISMS or "bias" in signature(MECHANISMS[kind]).parameters
    )  # an unknown kind is refused later


def _no_place(place: AttentionSite, position: PositionConfig, why: str) -> ConfigError:
    return ConfigError(
        f"{position.kind} positions and {place.config.kind!r} attention do not fit together",
        where=f"{place.where}.kind",
        why=why,
        help='--set model.position=sinusoidal, or a self-attention of kind "dot"',
    )
