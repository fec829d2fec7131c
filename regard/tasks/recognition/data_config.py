"""The section ``data`` of a recognizer: recordings with transcripts, and their encoding. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from regard.data.shared_files import FilesConfig
from regard.data.sound_options import SoundOptions
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.runs.run_config import DataSection


class RecordingFiles(FilesConfig):
    """Recordings: a list (JSON lines, TSV or CSV), a folder, or a .npz of frames."""

    arrays: str | None = Field(
        None,
        max_length=100,
        description="prefix of the names of the arrays in a .npz, such as `train_`; unset: no prefix, or that of the "
        "test part",
    )


class RecognitionDataConfig(DataSection):
    """Recordings with transcripts, and their encoding."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: tuple[RecordingFiles, ...]
    valid: tuple[RecordingFiles, ...] | None = None
    input: Literal["audio", "frames"] = Field(
        "audio", description="sounds in files, or frames in the arrays of a .npz, which are used as they are"
    )
    frame_rate: float = Field(100.0, gt=0, le=10_000, description="frames per second of the arrays of a .npz")
    sound: SoundOptions = SoundOptions()
    tokenizer: TokenizerConfig = TokenizerConfig(kind="character")
    max_seconds: float = Field(
        30.0,
        gt=0.1,
        le=3600,
        description="longer recordings are left out of training and reported; at use they are cut at their quietest "
        "places",
    )
    silence: float = Field(
        0.05,
        ge=0,
        le=1,
        description="training: additional examples without words (silence, noise, tones), as a share of the recordings",
    )
