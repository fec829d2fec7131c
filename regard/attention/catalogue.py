"""The table of mechanisms a config may name: kind -> class. A new mechanism is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from regard.attention.contract import Mechanism
from regard.attention.dot import Dot
from regard.attention.general import General
from regard.attention.local import LocalPredictive
from regard.attention.location_aware import LocationAware
from regard.errors import ConfigError

__all__ = ["MECHANISMS", "build_mechanism"]

MECHANISMS: dict[str, type[Mechanism]] = {
    "dot": Dot,
    "general": General,
    "local-p": LocalPredictive,
    "location-aware": LocationAware,
}


def build_mechanism(
    kind: str, options: Mapping[str, Any], *, where: str, sizes: Mapping[str, int] | None = None
) -> Mechanism:
    """The mechanism of that kind; ``where`` is the config key it came from, for the error.

    ``sizes`` (heads, query_width, key_width) are what the place gives; a mechanism gets those its constructor
    names. An option ``score`` is itself a mechanism: ``{kind = "local-p", score = {kind = "general"}}``.
    """
    if kind not in MECHANISMS:
        raise ConfigError(f"no mechanism is called {kind!r}", where=where, help=f"one of: {', '.join(MECHANISMS)}")
    wanted = signature(MECHANISMS[kind]).parameters
    given = {name: size for name, size in (sizes or {}).items() if name in wanted} | dict(options)
    if isinstance(given.get("score"), Mapping):
        inner = dict(given["score"])
        given["score"] = build_mechanism(inner.pop("kind", "dot"), inner, where=f"{where}.score", sizes=sizes)
    try:
        return MECHANISMS[kind](**given)
    except (TypeError, ValueError) as problem:
        raise ConfigError(f"{kind!r} attention cannot be built so", where=where, why=str(problem)) from problem
