"""What a config says of one place of a model: which mechanism or mixer, with which options."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["MechanismConfig", "MixerConfig", "Named"]

Projection = Literal["query", "key", "value", "output"]


class Named(BaseModel):
    """``{kind = "dot", …}``: a name and that thing's own options. ``"dot"`` alone is ``{kind = "dot"}``."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, given: Any) -> Any:
        return {"kind": given} if isinstance(given, str) else given

    @property
    def options(self) -> dict[str, Any]:
        """What stands beside the fields declared here: for the constructor of the thing that is named."""
        return dict(self.model_extra or {})


class MechanismConfig(Named):
    """A mechanism of the catalogue, and how its heads are laid out at this place."""

    kind: str = "dot"
    heads: int | None = Field(None, ge=1, le=1 << 20, description="here; unless given: `model.heads`")
    project: tuple[Projection, ...] | None = Field(None, description="which projections are linear; unset: all four")
    bias: tuple[Projection, ...] | None = Field(
        None, description="which projections have a bias; unset: as `model.attention_bias` says"
    )
    neighbourhood: int | None = Field(
        None, ge=1, description="r of restricted self-attention: look at most that far (Vaswani et al. 2017, Table 1)"
    )


class MixerConfig(Named):
    """A mixer of the catalogue: ``{kind = "ssru"}``."""

    kind: str
