"""Table of mixers that may replace self-attention, by kind. A new mixer is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.attention.contract import Mixer
from regard.config.constructor_options import validate_options
from regard.core.wording import did_you_mean
from regard.errors import ConfigError
from regard.models.transformer.average_attention import AverageAttention
from regard.models.transformer.ssru import SimpleRecurrent

__all__ = ["MIXERS", "build_mixer"]

MIXERS: dict[str, type[Mixer]] = {
    "average": AverageAttention,
    "ssru": SimpleRecurrent,
}


def build_mixer(kind: str, options: Mapping[str, Any], *, width: int, where: str) -> Mixer:
    """Mixer of that kind for sequences of ``width``; ``where``: config key, for errors."""
    if kind not in MIXERS:
        why, meant = f"one of: {', '.join(MIXERS)}", did_you_mean(kind, MIXERS)
        raise ConfigError(f"no mixer is called {kind!r}", where=where, why=why, help=meant)
    fitting = validate_options(MIXERS[kind], options, given=("width",), where=where)
    try:
        return MIXERS[kind](width, **fitting)
    except ValueError as problem:
        raise ConfigError(f"the mixer {kind!r} cannot be built so", where=where, why=str(problem)) from problem
