"""Config of the run that a network or its encoder takes its initial weights from. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from regard.models.input_config import InputOptions


class Origin(BaseModel):
    """A trained or imported run whose weights initialize training; a path alone means ``{run = PATH}``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str = Field(min_length=1, description="run folder; read once, when training starts")
    checkpoint: str | None = Field(
        None, description="`average`, `best`, `last` or a step; default: the first of these that exists"
    )

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, value: Any) -> Any:
        return {"run": value} if isinstance(value, str) else value

    @property
    def spelled(self) -> str | dict[str, str]:
        """The value in a config."""
        return self.run if self.checkpoint is None else {"run": self.run, "checkpoint": self.checkpoint}


if TYPE_CHECKING:
    Started = BaseModel
    _StartedEncoder = BaseModel
else:  # the key `from` is a Python keyword, so the field cannot be declared in a class body
    FROM = Field(None, description="run folder that provides initial weights, architecture and vocabulary")
    Started = create_model(
        "Started",
        __doc__="Base of networks that may start from the weights of another run.",
        **{"from": (Origin | None, FROM)},
    )
    FROM = Field(
        None,
        description="run folder whose encoder provides initial weights, keys and vocabulary; the decoder of a "
        "language model may be used as a bidirectional encoder",
    )
    _StartedEncoder = create_model(
        "_StartedEncoder",
        __doc__="Base of encoders that may start from the weights of another run.",
        **{"from": (Origin | None, FROM)},
    )


class EncoderStart(_StartedEncoder):
    """Keys of every encoder: the options of its input, the origin of its weights, and which of them are trained."""

    input: InputOptions = Field(
        InputOptions(), description="options of an input of frames; the data determine its type"
    )

    frozen: Literal["none", "embedding", "all"] | Annotated[int, Field(ge=1, le=1000)] = Field(
        "none",
        description="frozen weights of an encoder with `from`: none, the embedding, the embedding and the first N "
        "layers, or all",
    )

    @property
    def origin(self) -> Origin | None:
        """The run that it starts from, ``from`` in a config; None for random weights."""
        origin: Origin | None = getattr(self, "from")
        return origin


def trained_positions(model: Any) -> int | None:
    """Return the number of learned positions of an encoder with ``from`` in a table ``model``; None if unlimited."""
    encoder = model.get("encoder") if isinstance(model, dict) else None
    position = encoder.get("position") if isinstance(encoder, dict) and encoder.get("from") is not None else None
    longest = position.get("longest") if isinstance(position, dict) else None
    return longest if isinstance(longest, int) else None
