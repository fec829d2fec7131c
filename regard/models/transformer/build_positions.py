"""Relative positions of self-attention from a config, for one stack of layers."""

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

__all__ = ["AttentionSite", "attention_site"]


class AttentionSite(NamedTuple):
    """Self-attention of a stack: config, config key, and relative positions.

    All layers of a stack have the same one, and so share T5's table.
    """

    config: MechanismConfig
    where: str
    bias: EnergyBias | None = None
    rotary: Rotary | None = None


def attention_site(model: ModelConfig, own: MechanismConfig | None, *, where: str, causal: bool) -> AttentionSite:
    """Self-attention of one side: ``own`` at config key ``where`` if set, else ``model.self_attention``.

    Raises ConfigError where the mechanism cannot take this kind of position.
    """
    site = AttentionSite(own, where) if own else AttentionSite(model.self_attention, "model.self_attention")
    position = model.position
    heads = site.config.heads or model.heads
    try:
        if isinstance(position, RotaryConfig):
            width = model.key_width or model.width // heads
            return site._replace(rotary=Rotary(width, layout=position.layout, base=position.base))
        if isinstance(position, ShawConfig):
            return site._replace(config=_with_vectors(site, position))
        bias = _bias(position, heads, causal=causal)
    except ValueError as problem:
        raise ConfigError(
            "positions with these options cannot be built", where="model.position", why=str(problem)
        ) from problem
    if bias is not None and not _takes_bias(site.config.kind):
        raise _mismatch(site, position, f"it adds a bias to energies, which {site.config.kind!r} attention cannot")
    return site._replace(bias=bias)


def _bias(position: PositionConfig, heads: int, *, causal: bool) -> EnergyBias | None:
    if isinstance(position, AlibiConfig):
        return Alibi()
    if isinstance(position, T5Config):
        kind = T5CausalBias if causal else T5TwoSidedBias
        return kind(heads, buckets=position.buckets, distance=position.distance)
    return None


def _with_vectors(site: AttentionSite, position: ShawConfig) -> MechanismConfig:
    """Shaw's mechanism with the options of position and attention; those of the attention win."""
    if site.config.kind not in ("dot", "shaw"):
        why = f"it adds vectors to a dot product, and {site.config.kind!r} attention has none"
        raise _mismatch(site, position, why)
    whole = {"clip": position.clip, "values": position.values} | site.config.model_dump(exclude={"kind"})
    return MechanismConfig.model_validate({"kind": "shaw"} | whole)


def _takes_bias(kind: str) -> bool:
    return (
        kind not in MECHANISMS or "bias" in signature(MECHANISMS[kind]).parameters
    )  # an unknown kind is refused later


def _mismatch(site: AttentionSite, position: PositionConfig, why: str) -> ConfigError:
    return ConfigError(
        f"{position.kind} positions and {site.config.kind!r} attention do not fit together",
        where=f"{site.where}.kind",
        why=why,
        help='--set model.position=sinusoidal, or a self-attention of kind "dot"',
    )
