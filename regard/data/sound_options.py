"""The table ``data.sound``: how recordings become frames, and how training changes them. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Speed = Annotated[float, Field(ge=0.5, le=2)]


class SoundOptions(BaseModel):
    """Features of recordings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: int = Field(
        16_000,
        ge=1_000,
        le=384_000,
        description="samples per second; recordings with another rate are resampled. For a .npz, the rate of its "
        "samples",
    )
    channels: Literal[40, 80] = Field(80, description="log-mel channels of a frame: 40 or 80; a frame lasts 25 ms")
    normalization: Literal["corpus", "speaker", "recording"] = Field(
        "corpus",
        description="mean and deviation by which channels are standardized: those of the training data (corpus), of "
        "the recordings of a speaker, or of each recording",
    )
    trim: float | None = Field(
        None,
        gt=0,
        le=120,
        description="remove frames at both ends that are more than this many dB below the loudest one",
    )
    speeds: tuple[Speed, ...] = Field(
        (1.0,),
        min_length=1,
        max_length=9,
        description="training: speeds at which recordings are read, drawn in each epoch; pitch changes too, such as "
        "[0.9, 1.0, 1.1]",
    )
    shift: int = Field(0, ge=0, le=1000, description="training: maximum shift in time, in frames, drawn in each epoch")
    warp: float = Field(
        0.0,
        ge=0,
        le=0.3,
        description="training: maximum share by which frequencies are stretched or compressed, as by the length of a "
        "speaker's vocal tract, drawn in each epoch",
    )
    channel_masks: int = Field(0, ge=0, le=10, description="training: number of masked bands of channels (SpecAugment)")
    channel_width: int = Field(10, ge=1, le=80, description="training: maximum number of channels of a masked band")
    time_masks: int = Field(0, ge=0, le=10, description="training: number of masked ranges of frames (SpecAugment)")
    time_width: int = Field(50, ge=1, le=1000, description="training: maximum number of frames of a masked range")
    time_share: float = Field(
        0.2, gt=0, le=1, description="training: maximum share of a recording that one masked range has"
    )
