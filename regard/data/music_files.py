"""Pieces of music from files: MIDI, or JSON lists of frames of pitches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.core.untrusted_files import LARGE, parse_json
from regard.data.foreign_errors import foreign_errors
from regard.data.midi import read_midi
from regard.data.notes import PITCHES, Frame, frames_of
from regard.data.packed_files import open_unpacked
from regard.data.text_files import read_lines, refuse_pipe
from regard.errors import DataError

MIDI = (".mid", ".midi")
UNPACKED, UNPACKED_RATIO = 1 << 24, 20  # limits on unpacked JSON; one byte may take 24 bytes of memory
SILENCE = -1  # a silent voice in files whose frames list every voice


def read_pieces(path: Path, *, steps: int, part: str | None = None) -> Iterator[list[Frame]]:
    """Yield the pieces of a MIDI file, of all MIDI files in a folder (by name), or of a JSON file, ``.gz`` or not.

    JSON is a list of pieces; a piece is a list of frames; a frame is a list of pitches. It may also be an object with
    several such lists; ``part`` is the key of one. DataError, with the place, for any other content.

    Args:
        path: file or folder.
        steps: frames per quarter note, for MIDI.
        part: key of the list in a JSON object.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in MIDI and file.is_file())
        if not files:
            raise DataError("the folder contains no MIDI files", where=str(path), why="MIDI files end in .mid or .midi")
        for file in files:
            yield read_midi(file, steps)
    elif path.suffix.lower() in MIDI:
        yield read_midi(path, steps)
    else:
        pieces = _part(_read(path), part, path)
        for number, piece in enumerate(pieces, start=1):
            where = f"{path}: piece {number}"
            yield [_frame(frame, where) for frame in _list(piece, "a piece is a list of frames", where)]


def read_piece(path: Path, *, steps: int) -> list[Frame]:
    """Return the frames of one piece: a MIDI file, or a text of frames as `regard generate` writes it.

    Args:
        path: the file.
        steps: frames per quarter note, for MIDI.

    Raises:
        DataError: if the file has another form or no notes.
    """
    if path.suffix.lower() in MIDI:
        frames = read_midi(path, steps)
    else:
        frames = frames_of("".join(f"{line}\n" for line in read_lines(path)), where=str(path))
    if not any(frames):
        raise DataError("the piece has no notes", where=str(path))
    return frames


def _read(path: Path) -> Any:
    refuse_pipe(path)
    with foreign_errors("cannot read music from the file", path):
        if path.stat().st_size > LARGE:
            raise ValueError(f"it has more than {LARGE:,} bytes")
        with open_unpacked(path, free=UNPACKED, ratio=UNPACKED_RATIO, max_size=LARGE) as file:
            return parse_json(file.read())


def _part(content: Any, part: str | None, path: Path) -> list[Any]:
    if isinstance(content, dict):
        if part not in content:
            parts = ", ".join(map(str, content))
            raise DataError(
                "the file has several parts" if part is None else f"the file has no part {part!r}", where=str(path),
                why=f"its parts are {parts[:200]}", help="select one with --part",
            )  # fmt: skip
        content = content[part]
    return _list(content, "music is a list of pieces", str(path))


def _list(value: Any, what: str, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise DataError("the music has the wrong form", where=where, why=f"{what}, not {type(value).__name__}")
    return value


def _frame(value: Any, where: str) -> Frame:
    pitches = _list(value, "a frame is a list of pitches", where)
    for pitch in pitches:
        if not isinstance(pitch, int) or isinstance(pitch, bool) or not SILENCE <= pitch < PITCHES:
            raise DataError(f"invalid pitch {str(pitch)[:20]}", where=where, why="pitches are integers from 0 to 127")
    return tuple(sorted({pitch for pitch in pitches if pitch != SILENCE}))
