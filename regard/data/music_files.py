"""Pieces of music in files: MIDI, or JSON lists of frames of pitches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.core.untrusted_files import LARGE, parse_json
from regard.data.foreign_errors import foreign_errors
from regard.data.midi import read_midi
from regard.data.notes import PITCHES, Frame
from regard.data.packed_files import open_unpacked
from regard.data.text_files import refuse_pipe
from regard.errors import DataError

MIDI = (".mid", ".midi")
UNPACKED, UNPACKED_RATIO = 1 << 24, 20  # bytes of JSON, each of which may take 24 bytes of memory
SILENCE = -1  # a voice that does not sound, where each frame lists every voice


def read_pieces(path: Path, *, steps: int, part: str | None = None) -> Iterator[list[Frame]]:
    """The pieces of a MIDI file, of all in a folder by name, or of a JSON file, ``.gz`` or not.

    JSON is a list of pieces, each a list of frames, each a list of pitches; or an object of such lists, of which
    ``part`` names one. ``steps``: frames a quarter note, for MIDI. DataError for anything else, with the place.
    """
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.suffix.lower() in MIDI and file.is_file())
        if not found:
            raise DataError("there is no music in this folder", where=str(path), why="its files end in .mid or .midi")
        for file in found:
            yield read_midi(file, steps)
    elif path.suffix.lower() in MIDI:
        yield read_midi(path, steps)
    else:
        pieces = _part(_read(path), part, path)
        for number, piece in enumerate(pieces, start=1):
            where = f"{path}: piece {number}"
            yield [_frame(frame, where) for frame in _list(piece, "a piece is a list of frames", where)]


def _read(path: Path) -> Any:
    refuse_pipe(path)
    with foreign_errors("the music cannot be read", path):
        if path.stat().st_size > LARGE:
            raise ValueError(f"it has more than {LARGE:,} bytes")
        with open_unpacked(path, free=UNPACKED, ratio=UNPACKED_RATIO, most=LARGE) as file:
            return parse_json(file.read())


def _part(found: Any, part: str | None, path: Path) -> list[Any]:
    if isinstance(found, dict):
        if part not in found:
            parts = ", ".join(map(str, found))
            raise DataError(
                "the file has several parts" if part is None else f"there is no part {part}", where=str(path),
                why=f"its parts are {parts[:200]}", help="name one: --part",
            )  # fmt: skip
        found = found[part]
    return _list(found, "music is a list of pieces", str(path))


def _list(value: Any, what: str, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise DataError("this is no music", where=where, why=f"{what}, not {type(value).__name__}")
    return value


def _frame(value: Any, where: str) -> Frame:
    pitches = _list(value, "a frame is a list of pitches", where)
    for pitch in pitches:
        if not isinstance(pitch, int) or isinstance(pitch, bool) or not SILENCE <= pitch < PITCHES:
            raise DataError("this is no pitch", where=where, why=f"{str(pitch)[:20]}: pitches are whole, 0 to 127")
    return tuple(sorted({pitch for pitch in pitches if pitch != SILENCE}))
