"""Config of where the weights of a network, or of its encoder, come from, if not from chance. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

__all__ = ["Origin", "Started", "StartedEncoder"]


class Origin(BaseModel):
    """A run, trained here or imported, whose weights a training begins with; its path alone is a table with it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str = Field(min_length=1, description="run folder; read when training begins, and never again")
    checkpoint: str | None = Field(
        None, description="`average`, `best`, `last` or a step; unset: the first of these that there is"
    )

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, given: Any) -> Any:
        return {"run": given} if isinstance(given, str) else given

    @property
    def spelled(self) -> str | dict[str, str]:
        """The value that a config has."""
        return self.run if self.checkpoint is None else {"run": self.run, "checkpoint": self.checkpoint}


if TYPE_CHECKING:
    Started = BaseModel
    StartedEncoder = BaseModel
else:  # the key is `from`, which no attribute can be written as
    FROM = Field(None, description="run folder whose weights, architecture and vocabulary training starts from")
    Started = create_model(
        "Started", __doc__="Base of networks that may start from another's weights.", **{"from": (Origin | None, FROM)}
    )
    FROM = Field(
        None,
        description="of an encoder: run folder whose reading part it starts from, with its keys and its vocabulary; "
        "that of a language model counts as one, and then sees both sides",
    )
    StartedEncoder = create_model(
        "StartedEncoder",
        __doc__="Base of sides, of which an encoder may start from another run's.",
        **{"from": (Origin | None, FROM)},
    )
