"""Options of the first layer of an encoder of floats; its type follows from the data. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

LONGEST = 1 << 16  # frames of a patch


class InputOptions(BaseModel):
    """Options that join frames to positions of an encoder; by default each frame is one position."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    subsample: Literal[1, 2, 4, 8] = Field(
        1, description="frames for each position, by convolutions of stride 2; for sounds 4 or 8 is usual"
    )
    patch: int | None = Field(
        None, ge=1, le=LONGEST, description="frames of a patch, or height and width of a patch of an image in pixels"
    )
    stride: int | None = Field(
        None, ge=1, le=LONGEST, description="frames between the starts of two patches; default: `patch`"
    )

    def positions(self, length: int) -> int:
        """Return the number of positions that an encoder has for this number of frames."""
        if self.patch is None:
            return -(-length // self.subsample)
        return 1 + -(-max(length - self.patch, 0) // (self.stride or self.patch))

    @model_validator(mode="after")
    def _check_patches(self) -> InputOptions:
        if self.patch is not None and self.subsample > 1:
            raise ValueError("subsample and patch cannot be combined")
        if self.stride is not None and (self.patch is None or self.stride > self.patch):
            raise ValueError("stride requires a patch that is at least as long: otherwise frames are not read")
        return self
