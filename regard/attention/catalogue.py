"""The table of mechanisms a config may name: kind -> class. A new mechanism is one file and one line here."""

from __future__ import annotations

from typing import Any

from regard.attention.contract import Mechanism
from regard.attention.dot import Dot
from regard.errors import ConfigError

__all__ = ["MECHANISMS", "build_mechanism"]

MECHANISMS: dict[str, type[Mechanism]] = {
    "dot": Dot,
}


def build_mechanism(kind: str, options: dict[str, Any], *, where: str) -> Mechanism:
    """The mechanism of that kind; ``where`` is the config key it came from, for the error."""
    if kind not in MECHANISMS:
        raise ConfigError(
            f"no mechanism is called {kind!r}", where=where, help=f"one of: {', '.join(MECHANISMS)}"
        )
    try:
        return MECHANISMS[kind](**options)
    except (TypeError, ValueError) as problem:
        raise ConfigError(
            f"{kind!r} attention cannot be built so", where=where, why=str(problem)
        ) from problem
