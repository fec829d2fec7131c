"""Construction of the mixers of one sequence, on either side: self-attention, or what stands in its place."""

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
)  # arguments that a site gives to a mixer which names them


def find_mixer(kind: str) -> type[Mixer]:
    """Class of a mixer of ``OTHER_MIXERS``."""
    module, _, name = OTHER_MIXERS[kind].partition(":")
    found: type[Mixer] = getattr(import_module(module), name)
    return found


def build_mixer(site: MixerSite) -> Mixer:
    """Mixer of one layer at that site, on either side; ConfigError where it cannot be built."""
    kind = site.config.kind
    if kind in MECHANISMS:
        return _self_attention(site)
    if kind not in OTHER_MIXERS:
        known = [*MECHANISMS, *OTHER_MIXERS]
        why, meant = f"one of: {', '.join(known)}", did_you_mean(kind, known)
        raise ConfigError(f"no mixer is called {kind!r}", where=f"{site.where}.kind", why=why, help=meant)
    options = site.config.model_dump(exclude_unset=True, exclude={"kind", "heads"})
    placed: dict[str, Any] = {
        "width": site.width,
        "heads": site.config.heads or site.sizes.heads,
        "causal": Causal() in site.mask.conjuncts(),
        "dropout": site.sizes.attention_dropout,
        "rotary": site.rotary,
        "layer": site.layer,
    }
    return place_mixer(kind, options, placed, where=site.where)


def place_mixer(kind: str, options: Mapping[str, Any], placed: Mapping[str, Any], *, where: str) -> Mixer:
    """Mixer of ``OTHER_MIXERS`` with these options.

    ``placed``: values of ``BUILDER_ARGUMENTS``, of which its constructor gets those it has: ``heads`` of the side,
    ``causal``: whether a column sees none after it, ``dropout`` of attention weights, ``rotary`` positions or None,
    ``layer``: its number in the stack.
    ``where``: the config key of the mixer, for errors. ConfigError where it cannot be built.
    """
    mixer = find_mixer(kind)
    fitting = validate_options(mixer, options, given=BUILDER_ARGUMENTS, where=where)
    wanted = signature(mixer).parameters
    given = {name: value for name, value in placed.items() if name in wanted}
    try:
        return mixer(**given, **fitting)
    except ValueError as problem:
        raise ConfigError(f"the mixer {kind!r} cannot be built so", where=where, why=str(problem)) from problem


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
            f"{chosen.kind!r} attention cannot serve in {side}", where=f"{site.where}.kind", why=str(problem)
        ) from problem
