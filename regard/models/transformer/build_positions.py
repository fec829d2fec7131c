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

__all__ = ["AttentionSite", "attention_site"]


class AttentionSite(NamedTuple):
    """Where self-attention stands in a stack: what the config says there, under which key, and of positions.

    One for all layers of a stack, which thus share a table of T5.
    """

    config: MechanismConfig
    where: str
    bias: EnergyBias | None = None
    rotary: Rotary | None = None


def attention_site(model: ModelConfig, own: MechanismConfig | None, *, where: str, causal: bool) -> AttentionSite:
    """``own`` is what an encoder or decoder says for itself under the key ``where``, else the model's word counts.

    Raises ConfigError where the mechanism has no place for the kind of position.
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
        raise ConfigError("these positions cannot be", where="model.position", why=str(problem)) from problem
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
    """Dot becomes Shaw's mechanism, with the options of both; those of the site win."""
    if site.config.kind not in ("dot", "shaw"):
        why = f"it is a dot product with vectors for distances, and {site.config.kind!r} attention is none"
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
