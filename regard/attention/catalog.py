"""Table of mechanisms by the kind that a config names. A new mechanism is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from torch import nn

from regard.attention.contract import Mechanism
from regard.attention.mechanisms.additive import Additive
from regard.attention.mechanisms.cosine import Cosine
from regard.attention.mechanisms.coverage import Coverage
from regard.attention.mechanisms.coverage_location_aware import CoverageLocationAware
from regard.attention.mechanisms.differential import Differential
from regard.attention.mechanisms.dot import Dot
from regard.attention.mechanisms.forward import Forward
from regard.attention.mechanisms.gat import Gat
from regard.attention.mechanisms.gatv2 import Gatv2
from regard.attention.mechanisms.general import General
from regard.attention.mechanisms.hard import Hard
from regard.attention.mechanisms.local_monotonic import LocalMonotonic
from regard.attention.mechanisms.local_predictive import LocalPredictive
from regard.attention.mechanisms.location import Location
from regard.attention.mechanisms.location_aware import LocationAware
from regard.attention.mechanisms.location_aware_2d import LocationAware2D
from regard.attention.mechanisms.location_recurrent import LocationRecurrent
from regard.attention.mechanisms.multi_resolution import MultiResolution
from regard.attention.mechanisms.shaw import Shaw
from regard.attention.mechanisms.tanh_dot import TanhDot
from regard.attention.mechanisms.top_k import TopK
from regard.attention.score import Score
from regard.config.constructor_options import validate_options
from regard.core.wording import did_you_mean
from regard.errors import ConfigError

MECHANISMS: dict[str, type[Mechanism]] = {
    "additive": Additive,
    "cosine": Cosine,
    "coverage": Coverage,
    "coverage-location-aware": CoverageLocationAware,
    "differential": Differential,
    "dot": Dot,
    "forward": Forward,
    "gat": Gat,
    "gatv2": Gatv2,
    "general": General,
    "hard": Hard,
    "local-m": LocalMonotonic,
    "local-p": LocalPredictive,
    "location": Location,
    "location-aware": LocationAware,
    "location-aware-2d": LocationAware2D,
    "location-recurrent": LocationRecurrent,
    "multi-resolution": MultiResolution,
    "shaw": Shaw,
    "tanh-dot": TanhDot,
    "top-k": TopK,
}


# Constructor arguments that come from the model, not from the config: sizes, and the bias of energies by distance.
BUILDER_ARGUMENTS = ("heads", "query_width", "key_width", "value_width", "bias")
RENAMED = {"own": "learned"}  # old and new names of options in saved configs


def build_mechanism(
    kind: str,
    options: Mapping[str, Any],
    *,
    where: str,
    sizes: Mapping[str, int] | None = None,
    parts: Mapping[str, nn.Module] | None = None,
) -> Mechanism:
    """Return the mechanism of that kind, built with these options.

    Args:
        kind: a key of ``MECHANISMS``.
        options: of the config. An option ``score`` names another mechanism, which must be a ``Score``; default dot:
            ``{kind = "local-p", score = {kind = "general"}}``.
        where: the config key of the mechanism, for errors.
        sizes: heads, query_width, key_width and value_width; a mechanism receives those that its constructor has.
        parts: modules for the constructor, such as ``bias``.

    Raises:
        ConfigError: the mechanism is unknown, or its options do not allow it to be built.
    """
    if kind not in MECHANISMS:
        reason, suggestion = f"one of: {', '.join(MECHANISMS)}", did_you_mean(kind, MECHANISMS)
        raise ConfigError(f"unknown mechanism {kind!r}", where=where, why=reason, help=suggestion)
    parameters = signature(MECHANISMS[kind]).parameters
    renamed = {old: new for old, new in RENAMED.items() if new in parameters}
    options = {renamed.get(name, name): value for name, value in options.items()}
    arguments: dict[str, Any] = {name: size for name, size in (sizes or {}).items() if name in parameters} | dict(
        parts or {}
    )
    if "score" in parameters:
        arguments["score"] = _build_score(options.get("score", "dot"), where=f"{where}.score", sizes=sizes)
        options = {name: value for name, value in options.items() if name != "score"}
    arguments |= validate_options(MECHANISMS[kind], options, excluded=BUILDER_ARGUMENTS, where=where)
    try:
        return MECHANISMS[kind](**arguments)
    except (TypeError, ValueError) as problem:
        raise ConfigError(
            f"{kind!r} attention cannot be built with these options", where=where, why=str(problem)
        ) from problem


def _build_score(spec: object, *, where: str, sizes: Mapping[str, int] | None) -> Mechanism:
    """Return the mechanism that ``{kind = …}`` or a kind alone names. Raises ConfigError unless it is a ``Score``."""
    if not isinstance(spec, (str, Mapping)):
        raise ConfigError("a score must be a kind, or a table with the key `kind`", where=where, why=f"found {spec!r}")
    options = {"kind": spec} if isinstance(spec, str) else {"kind": "dot"} | dict(spec)
    kind = str(options.pop("kind"))
    score = build_mechanism(kind, options, where=where, sizes=sizes)
    if not isinstance(score, Score):
        scores = ", ".join(name for name, mechanism in MECHANISMS.items() if issubclass(mechanism, Score))
        raise ConfigError(f"{kind!r} cannot be the score of another mechanism", where=where, help=f"one of: {scores}")
    return score
