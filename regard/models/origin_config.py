"""Config of where the weights of a network, or of its encoder, come from, if not from chance. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator


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
    _StartedEncoder = BaseModel
else:  # the key is `from`, which no attribute can be written as
    FROM = Field(None, description="run folder whose weights, architecture and vocabulary training starts from")
    Started = create_model(
        "Started", __doc__="Base of networks that may start from another's weights.", **{"from": (Origin | None, FROM)}
    )
    FROM = Field(
        None,
        description="run folder whose reading part it starts from, with its keys and its vocabulary; "
        "that of a language model counts as one, and then sees both sides",
    )
    _StartedEncoder = create_model(
        "_StartedEncoder",
        __doc__="Base of encoders that may start from another run's.",
        **{"from": (Origin | None, FROM)},
    )


class EncoderStart(_StartedEncoder):
    """Keys of every encoder, whatever its kind: where its weights come from, and which of them learn."""

    frozen: Literal["none", "embedding", "all"] | Annotated[int, Field(ge=1, le=1000)] = Field(
        "none",
        description="of an encoder that starts from another run's: what training leaves as it came: nothing, the "
        "embedding, that and so many layers from the first, or `all`",
    )

    @property
    def origin(self) -> Origin | None:
        """The run that it starts from, ``from`` in a config; None for random weights."""
        found: Origin | None = getattr(self, "from")
        return found
