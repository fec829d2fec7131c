"""The fact ``roll`` of an observation of music: the frames as MIDI pitches, to draw and play them."""

from __future__ import annotations

from typing import Any

from regard.data.notes import frames_of
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError

STEPS = 1  # frames of a quarter note, the default of ``regard harmonize``; runs do not record their own


def piano_roll(tokenizer: Tokenizer, text: str, known: str | None = None) -> dict[str, Any]:
    """Return the fact ``roll``; {} for a text that is not music.

    Args:
        tokenizer: the tokenizer of the model.
        text: the frames, one per line.
        known: the same frames without predicted notes; None: no note is predicted.
    """
    if tokenizer.config.kind != "notes":
        return {}
    try:
        frames, given_frames = frames_of(text), None if known is None else frames_of(known)
    except DataError:  # a word is not a pitch: the model reads an unknown piece
        return {}
    roll: dict[str, Any] = {"steps": STEPS, "frames": [list(frame) for frame in frames]}
    if given_frames is not None and len(given_frames) == len(frames):  # a predicted end of a frame adds a frame
        roll["given"] = [list(frame) for frame in given_frames]
    return {"roll": roll}
