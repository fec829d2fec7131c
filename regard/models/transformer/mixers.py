"""Construction of the mixers of one sequence, on either side: self-attention, or a mixer that replaces it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from typing import Any

from regard.attention.catalog import MECHANISMS
from regard.attention.contract import Mixer
from regard.attention.heads import SelfAttention
from regard.attention.mask import Causal, Window
from regard.attention.positions.forgetting import ForgetGate, ForgettingBias
from regard.config.constructor_options import validate_options
from regard.core.wording import did_you_mean
from regard.errors import ConfigError
from regard.models.attention_config import OTHER_MIXERS
from regard.models.parts import multi_head
from regard.models.transformer.site import MixerSite

BUILDER_ARGUMENTS = (
    "width",
    "heads",
    "causal",
    "dropout",
    "rotary",
    "layer",
)  # arguments from the model, passed to a mixer whose constructor has them


def find_mixer(kind: str) -> type[Mixer]:
    """Return the class of a mixer of ``OTHER_MIXERS``."""
    module, _, name = OTHER_MIXERS[kind].partition(":")
    mixer: type[Mixer] = getattr(import_module(module), name)
    return mixer


def build_mixer(site: MixerSite) -> Mixer:
    """Build the mixer of one layer at that site, on either side. Raises ConfigError if it cannot be built."""
    kind = site.config.kind
    if kind in MECHANISMS:
        return _self_attention(site)
    if kind not in OTHER_MIXERS:
        known = [*MECHANISMS, *OTHER_MIXERS]
        why, suggestion = f"one of: {', '.join(known)}", did_you_mean(kind, known)
        raise ConfigError(f"unknown mixer {kind!r}", where=f"{site.where}.kind", why=why, help=suggestion)
    options = site.config.model_dump(exclude_unset=True, exclude={"kind", "heads"})
    arguments: dict[str, Any] = {
        "width": site.width,
        "heads": site.config.heads or site.sizes.heads,
        "causal": Causal() in site.mask.conjuncts(),
        "dropout": site.sizes.attention_dropout,
        "rotary": site.rotary,
        "layer": site.layer,
    }
    return place_mixer(kind, options, arguments, where=site.where)


def place_mixer(kind: str, options: Mapping[str, Any], available: Mapping[str, Any], *, where: str) -> Mixer:
    """Build the mixer of ``OTHER_MIXERS`` with these options.

    Args:
        kind: a key of ``OTHER_MIXERS``.
        options: of the config.
        available: values of ``BUILDER_ARGUMENTS``; the constructor receives those that it has. ``heads`` of the side,
            ``causal``: whether a position sees no later one, ``dropout`` of attention weights, ``rotary`` positions or
            None, ``layer``: its index in the stack.
        where: the config key of the mixer, for errors.

    Raises:
        ConfigError: the mixer cannot be built.
    """
    mixer = find_mixer(kind)
    fitting = validate_options(mixer, options, excluded=BUILDER_ARGUMENTS, where=where)
    parameters = signature(mixer).parameters
    arguments = {name: value for name, value in available.items() if name in parameters}
    try:
        return mixer(**arguments, **fitting)
    except ValueError as problem:
        raise ConfigError(
            f"the mixer {kind!r} cannot be built with these options", where=where, why=str(problem)
        ) from problem


def _self_attention(site: MixerSite) -> SelfAttention:
    chosen, mask = site.config, site.mask
    parts = {} if site.bias is None else {"bias": site.bias}
    attention = multi_head(site.sizes, chosen, where=site.where, width=site.width, memory_width=site.width, parts=parts)
    if chosen.neighborhood is not None:
        mask = mask & Window(chosen.neighborhood, chosen.sinks or 0)
    forget = ForgetGate(site.width, attention.heads) if isinstance(site.bias, ForgettingBias) else None
    try:
        return SelfAttention(
            attention, mask=mask, rotary=site.rotary, forget=forget, adds_values=site.adds_values,
            together=site.together,
        )  # fmt: skip
    except ValueError as problem:
        side = "a decoder" if Causal() in mask.conjuncts() else "an encoder"
        raise ConfigError(
            f"{chosen.kind!r} attention cannot be used in {side}", where=f"{site.where}.kind", why=str(problem)
        ) from problem
