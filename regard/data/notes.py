"""Music as text: one line per frame (time step), with the names of the sounding pitches from low to high.

Language models learn and generate texts such as ``C3 G3 E4 C5``, one frame per line; an empty line is silence. Pitches
are those of MIDI: 0 is C-1, 60 is C4 (middle C), 127 is G9. Two voices on the same pitch are one note.
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
    """Return the name of a MIDI pitch: 61 is ``C#4``."""
    return f"{NAMES[pitch % 12]}{pitch // 12 - 1}"


def pitch_of(name: str) -> int | None:
    """Return the pitch of a name, ``Db4`` as well as ``C#4``; None if the name is invalid."""
    match = NOTE.fullmatch(name)
    if match is None:
        return None
    pitch = NAMES.index(match[1]) + SHIFT[match[2]] + 12 * (int(match[3]) + 1)
    return pitch if 0 <= pitch < PITCHES else None


def spell(frames: Iterable[Sequence[int]]) -> str:
    """Return the text of frames; each line ends in a line break."""
    return "".join(" ".join(map(name_of, sorted(set(frame)))) + FRAME for frame in frames)


def frames_of(text: str, *, where: str = "the text") -> list[Frame]:
    """Return the frames of a text. DataError, with the line, for a word that is not a pitch."""
    frames = []
    for number, line in enumerate(text.removesuffix(FRAME).split(FRAME) if text else [], start=1):
        pitches = {name: pitch_of(name) for name in line.split()}
        if invalid := [name for name, pitch in pitches.items() if pitch is None]:
            raise DataError(
                f"{invalid[0][:20]!r} is not a pitch", where=f"{where}:{number}",
                why="a frame is a line of pitches from C-1 to G9, such as C3 G3 E4 C5",
            )  # fmt: skip
        frames.append(tuple(sorted({pitch for pitch in pitches.values() if pitch is not None})))
    return frames


def shifted(frames: Iterable[Sequence[int]], semitones: int) -> list[Frame]:
    """Return the frames transposed by ``semitones``; ValueError if a pitch leaves the MIDI range."""
    moved = [tuple(sorted(pitch + semitones for pitch in frame)) for frame in frames]
    if any(not 0 <= pitch < PITCHES for frame in moved for pitch in frame):
        raise ValueError("a transposed pitch is outside the range 0 to 127")
    return moved
