"""Configs of positions. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field

# Kinds that are applied in self-attention instead of being added to embeddings.
RELATIVE = ("rotary", "alibi", "t5", "shaw", "forgetting")


class _Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SinusoidalConfig(_Options):
    """Sines and cosines, added to embeddings (Vaswani et al. 2017, §3.5)."""

    kind: Literal["sinusoidal"] = "sinusoidal"


class LearnedConfig(_Options):
    """Learned table, added to embeddings."""

    kind: Literal["learned"] = "learned"
    longest: int = Field(1024, ge=1, le=1 << 24, description="rows of the table: maximum number of positions")


class NoPositionConfig(_Options):
    """No positions: an encoder is then order-free, and a decoder has only the order of its mask."""

    kind: Literal["none"] = "none"


class RotaryConfig(_Options):
    """Rotation of queries and keys by their position (Su et al. 2021)."""

    kind: Literal["rotary"] = "rotary"
    layout: Literal["interleaved", "half"] = Field(
        "interleaved", description="features of a pair: 2i and 2i + 1 (the paper), or i and i + d/2 (Llama)"
    )
    base: float = Field(10000.0, gt=1, allow_inf_nan=False, description="base of the frequencies base^(−2i/d)")


class AlibiConfig(_Options):
    """Penalty that grows with distance, at a different rate in each head (Press et al. 2022)."""

    kind: Literal["alibi"] = "alibi"


class ForgettingConfig(_Options):
    """Forget gates per position and head that decay attention to earlier positions; causal (Lin et al. 2025)."""

    kind: Literal["forgetting"] = "forgetting"


class T5Config(_Options):
    """Learned bias for each head and bucket of distances, one table per stack (Raffel et al. 2020)."""

    kind: Literal["t5"] = "t5"
    buckets: int = Field(
        32,
        ge=4,
        le=1 << 20,
        multiple_of=4,
        description="number of buckets, a multiple of 4; an encoder uses half for each side",
    )
    distance: int = Field(128, ge=3, le=1 << 20, description="distances from this value on share the last bucket")


class ShawConfig(_Options):
    """Learned vector for each head and distance, added to keys and values (Shaw et al. 2018)."""

    kind: Literal["shaw"] = "shaw"
    clip: int = Field(16, ge=0, le=1 << 20, description="maximum distance k; larger distances share one vector")
    values: bool = Field(True, description="also add vectors to values")


def _name_alone(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


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
    """Return the table of a side, with ``longest`` as the default size of learned positions.

    Older configs set ``longest`` on the side. ``default``: kind of positions if the table sets none.
    """
    position = _name_alone(table.get("position", default))
    if longest is None or not isinstance(position, dict) or position.get("kind") != "learned":
        return table
    return table | {"position": {"longest": longest} | position}
