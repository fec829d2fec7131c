"""The site of a mixer in a stack of layers, with the relative positions of the stack."""

from __future__ import annotations

from inspect import signature
from typing import NamedTuple

from regard.attention.catalog import MECHANISMS
from regard.attention.mask import Mask
from regard.attention.positions.distance_bias import Alibi, EnergyBias, T5CausalBias, T5TwoSidedBias
from regard.attention.positions.forgetting import ForgettingBias
from regard.attention.positions.rotary import Rotary
from regard.errors import ConfigError
from regard.models.attention_config import ROTATED_MIXERS, AttentionSizes, MixerConfig
from regard.models.position_config import (
    AlibiConfig,
    ForgettingConfig,
    PositionConfig,
    RotaryConfig,
    ShawConfig,
    T5Config,
)
from regard.models.transformer.config import TransformerStackConfig


class MixerSite(NamedTuple):
    """Site of a mixer in a stack of either side. Sites of a stack differ by ``layer`` only, so they share T5's table.

    ``width``: features of a position. ``sizes``: heads of the side. ``mask``: visible positions. ``where``: config key,
    for errors. ``bias``, ``rotary``: relative positions; ``adds_values``: whether mixers add value embeddings;
    ``together``: see ``SelfAttention``; these are for mixers that are self-attention. ``layer``: its index in the
    stack.
    """

    config: MixerConfig
    width: int
    sizes: AttentionSizes
    mask: Mask
    where: str
    bias: EnergyBias | None = None
    rotary: Rotary | None = None
    adds_values: bool = False
    together: bool = False
    layer: int = 0


def mixer_site(stack: TransformerStackConfig, mask: Mask, *, where: str, causal: bool) -> MixerSite:
    """Return the site of a stack's mixers.

    ``where``: config key of the stack. ``causal``: whether positions see no later ones, which decides the type of T5's
    table. Raises ConfigError if the mixer does not support this kind of position.
    """
    site = MixerSite(stack.mixer, stack.width, stack, mask, f"{where}.mixer", adds_values=stack.value_embedding)
    position, kind = stack.position, site.config.kind
    heads = site.config.heads or stack.heads
    if kind in ROTATED_MIXERS and isinstance(position, RotaryConfig):
        site = site._replace(rotary=_rotary(stack, position, heads, where=where))
    if kind not in MECHANISMS:
        if stack.value_embedding:
            raise ConfigError(
                f"the mixer {site.config.kind!r} does not support value embeddings",
                where=f"{where}.value_embedding",
                why="value embeddings require self-attention",
                help=f"--set {where}.value_embedding=false",
            )
        return site
    if isinstance(position, RotaryConfig):
        return site._replace(rotary=_rotary(stack, position, heads, where=where))
    if isinstance(position, ForgettingConfig) and not causal:
        raise ConfigError(
            "forgetting positions require a causal mask, which an encoder does not have",
            where=f"{where}.position",
            why="forget gates apply between a key and a later query",
            help=f"--set {where}.position=rotary, or sinusoidal",
        )
    try:
        if isinstance(position, ShawConfig):
            return site._replace(config=_with_vectors(site, position))
        bias = _bias(position, heads, causal=causal)
    except ValueError as problem:
        raise _unfit(where, problem) from problem
    if bias is not None and "bias" not in signature(MECHANISMS[kind]).parameters:
        raise _mismatch(site, position, f"it adds a bias to energies, which {kind!r} attention does not support")
    return site._replace(bias=bias)


def _rotary(stack: TransformerStackConfig, position: RotaryConfig, heads: int, *, where: str) -> Rotary:
    try:
        return Rotary(stack.key_width or stack.width // heads, layout=position.layout, base=position.base)
    except ValueError as problem:
        raise _unfit(where, problem) from problem


def _unfit(where: str, problem: ValueError) -> ConfigError:
    why = str(problem)
    return ConfigError("positions with these options cannot be built", where=f"{where}.position", why=why)


def _bias(position: PositionConfig, heads: int, *, causal: bool) -> EnergyBias | None:
    if isinstance(position, AlibiConfig):
        return Alibi()
    if isinstance(position, ForgettingConfig):
        return ForgettingBias()
    if isinstance(position, T5Config):
        kind = T5CausalBias if causal else T5TwoSidedBias
        return kind(heads, buckets=position.buckets, distance=position.distance)
    return None


def _with_vectors(site: MixerSite, position: ShawConfig) -> MixerConfig:
    """Return Shaw's mechanism with the options of position and attention; those of the attention take precedence."""
    if site.config.kind not in ("dot", "shaw"):
        why = f"it adds vectors to a dot product, which {site.config.kind!r} attention does not compute"
        raise _mismatch(site, position, why)
    whole = {"clip": position.clip, "values": position.values} | site.config.model_dump(exclude={"kind"})
    return MixerConfig.model_validate({"kind": "shaw"} | whole)


def _mismatch(site: MixerSite, position: PositionConfig, why: str) -> ConfigError:
    return ConfigError(
        f"{position.kind} positions cannot be combined with {site.config.kind!r} attention",
        where=f"{site.where}.kind",
        why=why,
        help='--set model.position=sinusoidal, or a mixer of kind "dot"',
    )
