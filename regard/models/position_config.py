"""Configs of positions. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field

# Kinds that act in self-attention; nothing is added to embeddings.
RELATIVE = ("rotary", "alibi", "t5", "shaw", "forgetting")


class _Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SinusoidalConfig(_Options):
    """Sines and cosines, added to embeddings (Vaswani et al. 2017, §3.5)."""

    kind: Literal["sinusoidal"] = "sinusoidal"


class LearnedConfig(_Options):
    """Learned table, added to embeddings."""

    kind: Literal["learned"] = "learned"
    longest: int = Field(1024, ge=1, le=1 << 24, description="rows of the table: positions that a model can take")


class NoPositionConfig(_Options):
    """No positions: an encoder then knows no order, a decoder only that of its mask."""

    kind: Literal["none"] = "none"


class RotaryConfig(_Options):
    """Rotation of queries and keys by their position (Su et al. 2021)."""

    kind: Literal["rotary"] = "rotary"
    layout: Literal["interleaved", "half"] = Field(
        "interleaved", description="features of a pair: 2i and 2i + 1 (the paper), or i and i + d/2 (Llama)"
    )
    base: float = Field(10000.0, gt=1, allow_inf_nan=False, description="base of the frequencies base^(−2i/d)")


class AlibiConfig(_Options):
    """Penalty that grows with distance, at another rate in each head (Press et al. 2022)."""

    kind: Literal["alibi"] = "alibi"


class ForgettingConfig(_Options):
    """Forget gates, one a column and head, by which all earlier columns count for less; causal (Lin et al. 2025)."""

    kind: Literal["forgetting"] = "forgetting"


class T5Config(_Options):
    """Learned bias for each head and bucket of distances, one table a stack (Raffel et al. 2020)."""

    kind: Literal["t5"] = "t5"
    buckets: int = Field(
        32, ge=4, le=1 << 20, multiple_of=4, description="number, a multiple of 4; half for each side in an encoder"
    )
    distance: int = Field(128, ge=3, le=1 << 20, description="distances from this one on share the last bucket")


class ShawConfig(_Options):
    """Learned vector for each head and distance, added to keys and values (Shaw et al. 2018)."""

    kind: Literal["shaw"] = "shaw"
    clip: int = Field(16, ge=0, le=1 << 20, description="k, beyond which distances share one vector")
    values: bool = Field(True, description="add vectors to values, too")


def _name_alone(given: Any) -> Any:
    return {"kind": given} if isinstance(given, str) else given


PositionConfig = Annotated[
    SinusoidalConfig
    | LearnedConfig
    | NoPositionConfig
    | RotaryConfig
    | AlibiConfig
    | T5Config
    | ShawConfig
    | ForgettingConfig,
    Discriminator("kind"),
    BeforeValidator(_name_alone),
]


def with_longest(table: dict[str, Any], longest: Any, *, default: str) -> dict[str, Any]:
    """Table of a side, its learned positions ``longest`` unless they say otherwise: older configs have it beside.

    ``default``: kind of positions where the table says none.
    """
    position = _name_alone(table.get("position", default))
    if longest is None or not isinstance(position, dict) or position.get("kind") != "learned":
        return table
    return table | {"position": {"longest": longest} | position}
