"""Conversion between MIDI files and frames, with ``mido`` (the extra ``music``)."""

from __future__ import annotations

import io
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.atomic_files import explain_os_errors, write_bytes_atomically
from regard.core.installation import extra_command
from regard.core.untrusted_files import SMALL, read_bytes
from regard.core.wording import pluralize
from regard.data.foreign_errors import foreign_errors, unreadable
from regard.data.notes import PITCHES, Frame
from regard.errors import ConfigError, DataError

DRUMS = 9  # channel of the percussion, whose notes are not pitches
MAX_FRAMES = 100_000
# Limits on sounding pitches summed over frames: the minimum for any file, and the number per byte of larger files.
# One hour of eight voices in sixteenths at 120 quarter notes per minute has 230,000; a note takes about 8 bytes.
FREE_PITCHES, PITCHES_PER_BYTE = 1 << 20, 64
TICKS, LOUDNESS = 480, 80  # ticks per quarter note; velocity of written notes


class Note(NamedTuple):
    """A pitch, its first frame, and the frame after its last."""

    pitch: int
    begin: int
    end: int


def read_midi(path: Path, steps: int) -> list[Frame]:
    """Return the frames of a MIDI file, ``steps`` per quarter note, without percussion.

    Frames range from the first note to the last. The start and end of a note are rounded to the nearest frame (ties to
    the later one); it lasts at least one frame. A pitch sounds while any note of it sounds: each track and channel has
    its own notes, and a note-off ends the oldest of them. A note without a note-off lasts one frame.

    Raises:
        DataError: The file is not MIDI, is of type 2 (independent pieces), has no note, or exceeds a limit. The limits
            are 100,000 frames, and a number of sounding pitches that depends on its size.
    """
    mido = _library()
    if not path.is_file():
        raise unreadable(path, FileNotFoundError())
    notes: list[Note] = []
    with foreign_errors("the file is not valid MIDI", path):
        content = read_bytes(path, SMALL)
        file = mido.MidiFile(file=io.BytesIO(content))
        if file.ticks_per_beat < 1:
            raise ValueError("its time division is SMPTE or 0; only ticks per quarter note are supported")
        for track in file.tracks:
            notes += _notes(track, file.ticks_per_beat, steps)
    if file.type == 2 and len(file.tracks) > 1:
        help = "save each piece as a file of type 0 or 1"
        raise DataError(
            f"the file contains {pluralize(len(file.tracks), 'independent piece')} (type 2)", where=str(path), help=help
        )
    if not notes:
        raise DataError("the file contains no notes", where=str(path))
    return _frames(notes, max(FREE_PITCHES, PITCHES_PER_BYTE * len(content)), path)


def _frames(notes: Sequence[Note], limit: int, path: Path) -> list[Frame]:
    """Return the pitches of each frame. Equal neighboring frames are one object, which makes long notes cheap."""
    first, last = min(note.begin for note in notes), max(note.end for note in notes)
    if last - first > MAX_FRAMES:
        what = f"the piece lasts {pluralize(last - first, 'frame')}"
        raise DataError(what, where=str(path), why=f"the limit is {MAX_FRAMES:,}", help="lower --steps")
    changes = defaultdict[int, list[tuple[int, int]]](list)
    for pitch, begin, end in notes:
        changes[begin].append((pitch, 1))
        changes[end].append((pitch, -1))
    sounding, total = [0] * PITCHES, 0
    frame: Frame = ()
    frames = []
    for step in range(first, last):
        for pitch, change in changes.get(step, ()):
            sounding[pitch] += change
        if step in changes:
            frame = tuple(pitch for pitch, count in enumerate(sounding) if count)
        total += len(frame)
        if total > limit:
            what = f"the piece has more than {limit:,} sounding pitches in its frames"
            why = f"that is the limit for a file of {path.stat().st_size:,} bytes"
            raise DataError(what, where=str(path), why=why, help="lower --steps")
        frames.append(frame)
    return frames


def _notes(track: Any, ticks: int, steps: int) -> Iterator[Note]:
    """Yield the notes of a track with ``ticks`` per quarter note. A pitch may start again before it ends."""
    open_notes = defaultdict[tuple[int, int], deque[int]](deque)
    now = 0

    def frame(tick: int) -> int:
        return (2 * tick * steps + ticks) // (2 * ticks)  # integer rounding, half up: even rhythm stays even

    for message in track:
        now += message.time
        if message.type not in ("note_on", "note_off") or message.channel == DRUMS:
            continue
        starts = open_notes[message.channel, message.note]
        if message.type == "note_on" and message.velocity:
            starts.append(now)
        elif starts:
            begin = frame(starts.popleft())
            yield Note(message.note, begin, max(frame(now), begin + 1))
    for (_, pitch), starts in open_notes.items():
        for tick in starts:
            yield Note(pitch, frame(tick), frame(tick) + 1)


def write_midi(frames: Sequence[Frame], path: Path, *, steps: int, tempo: int = 90) -> None:
    """Write frames as a MIDI file, with ``steps`` frames per quarter note and ``tempo`` quarter notes per minute.

    A pitch in consecutive frames is one long note: frames do not represent repeated notes. A missing folder is created.

    Raises:
        StorageError: if the file cannot be written.
    """
    mido = _library()
    track = mido.MidiTrack([mido.MetaMessage("set_tempo", tempo=mido.bpm2tempo(tempo))])
    last_tick, before = 0, set[int]()  # tick of the last message
    for step, frame in enumerate((*map(set, frames), set[int]())):
        changes = [("note_off", pitch) for pitch in sorted(before - frame)]
        changes += [("note_on", pitch) for pitch in sorted(frame - before)]
        for kind, pitch in changes:
            tick = round(step * TICKS / steps)  # absolute: a step need not be an integer number of ticks
            track.append(mido.Message(kind, note=pitch, velocity=LOUDNESS, time=tick - last_tick))
            last_tick = tick
        before = frame
    file, written = mido.MidiFile(ticks_per_beat=TICKS), io.BytesIO()
    file.tracks.append(track)
    file.save(file=written)
    with explain_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomically(path, written.getvalue())


def _library() -> Any:
    try:
        import mido
    except ImportError as error:
        raise ConfigError("MIDI files need mido", why="it is not installed", help=extra_command("music")) from error
    return mido
