"""Configs of one attention or mixer of a model: kind and options. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["MechanismConfig", "MixerConfig", "Named"]

Projection = Literal["query", "key", "value", "output"]


class Named(BaseModel):
    """Kind with options, ``{kind = "dot", …}``; ``"dot"`` alone is ``{kind = "dot"}``."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, given: Any) -> Any:
        return {"kind": given} if isinstance(given, str) else given

    @property
    def options(self) -> dict[str, Any]:
        """Keys beside the declared fields, for the constructor of that kind."""
        return dict(self.model_extra or {})


class MechanismConfig(Named):
    """Mechanism of the catalogue, with its heads and projections."""

    kind: str = "dot"
    heads: int | None = Field(None, ge=1, le=1 << 20, description="number of heads; unset: `model.heads`")
    project: tuple[Projection, ...] | None = Field(None, description="projections that are linear; unset: all four")
    bias: tuple[Projection, ...] | None = Field(
        None, description="projections that have a bias; unset: all or none, by `model.attention_bias`"
    )
    neighbourhood: int | None = Field(
        None, ge=1, description="r of restricted self-attention: greatest distance seen (Vaswani et al. 2017, Table 1)"
    )


class MixerConfig(Named):
    """Mixer of the catalogue: ``{kind = "ssru"}``."""

    kind: str
