"""The fact ``roll`` of an observation of music: the frames as MIDI pitches, to draw and play them."""

from __future__ import annotations

from typing import Any

from regard.data.notes import frames_of
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError

STEPS = 1  # frames of a quarter note, the default of ``regard harmonize``; runs do not record their own


def piano_roll(tokenizer: Tokenizer, text: str, given: str | None = None) -> dict[str, Any]:
    """Return the fact ``roll``; {} for a text that is not music.

    Args:
        tokenizer: of the model.
        text: the frames, one per line.
        given: the same frames without predicted notes; None: all notes are given.
    """
    if tokenizer.config.kind != "notes":
        return {}
    try:
        frames, known = frames_of(text), None if given is None else frames_of(given)
    except DataError:  # a word is not a pitch: the model reads an unknown piece
        return {}
    roll: dict[str, Any] = {"steps": STEPS, "frames": [list(frame) for frame in frames]}
    if known is not None and len(known) == len(frames):  # a predicted end of a frame adds a frame
        roll["given"] = [list(frame) for frame in known]
    return {"roll": roll}
