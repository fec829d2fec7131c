"""The table ``data.image``: how images are read, and how training changes them. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Side = Annotated[int, Field(ge=1, le=4096)]


class ImageOptions(BaseModel):
    """Size and colors of images; other images are resized and converted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: tuple[Side, Side] | None = Field(
        None, description="height and width in pixels; default: those of the training data, if all are equal"
    )
    channels: Literal[1, 3] = Field(1, description="channels of an image: 1 (gray) or 3 (red, green, blue)")
    shift: float = Field(
        0.0, ge=0, le=64, description="training: maximum shift in pixels, also parts of a pixel, drawn in each epoch"
    )
    angle: float = Field(0.0, ge=0, le=180, description="training: maximum rotation in degrees, drawn in each epoch")
