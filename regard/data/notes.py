"""Music as text: a line for each frame (a step of time), in it the names of the pitches that sound, low to high.

A text such as ``C3 G3 E4 C5``, one frame a line, is what a language model learns and gives; an empty line is silence.
Pitches are those of MIDI: 0 is C-1, 60 is C4 (middle C), 127 is G9. Two voices on one pitch are one note.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from regard.errors import DataError

Frame = tuple[int, ...]  # pitches, rising

FRAME = "\n"  # ends a frame
PITCHES, MIDDLE_C = 128, 60
NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
NOTE = re.compile(r"([A-G])([#b]?)(-?\d)")
SHIFT = {"": 0, "#": 1, "b": -1}


def name_of(pitch: int) -> str:
    """The name of a pitch of MIDI: 61 is ``C#4``."""
    return f"{NAMES[pitch % 12]}{pitch // 12 - 1}"


def pitch_of(name: str) -> int | None:
    """The pitch of a name, ``Db4`` as well as ``C#4``; None where it is none."""
    found = NOTE.fullmatch(name)
    if found is None:
        return None
    pitch = NAMES.index(found[1]) + SHIFT[found[2]] + 12 * (int(found[3]) + 1)
    return pitch if 0 <= pitch < PITCHES else None


def spell(frames: Iterable[Sequence[int]]) -> str:
    """The text of frames, each line of which ends in a line break."""
    return "".join(" ".join(map(name_of, sorted(set(frame)))) + FRAME for frame in frames)


def frames_of(text: str, *, where: str = "the text") -> list[Frame]:
    """The frames of a text. DataError, with the line, for a word that names no pitch."""
    found = []
    for number, line in enumerate(text.removesuffix(FRAME).split(FRAME) if text else [], start=1):
        pitches = {name: pitch_of(name) for name in line.split()}
        if wrong := [name for name, pitch in pitches.items() if pitch is None]:
            raise DataError(
                f"{wrong[0][:20]!r} names no pitch", where=f"{where}:{number}",
                why="a frame is a line of pitches such as C3 G3 E4 C5, up to G9",
            )  # fmt: skip
        found.append(tuple(sorted({pitch for pitch in pitches.values() if pitch is not None})))
    return found


def shifted(frames: Iterable[Sequence[int]], semitones: int) -> list[Frame]:
    """The frames so many semitones higher; ValueError where a pitch would lie beyond those that there are."""
    moved = [tuple(sorted(pitch + semitones for pitch in frame)) for frame in frames]
    if any(not 0 <= pitch < PITCHES for frame in moved for pitch in frame):
        raise ValueError("a pitch lies beyond those that there are")
    return moved
