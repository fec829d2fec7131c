"""MIDI files to frames and back, by ``mido`` (the extra ``music``)."""

from __future__ import annotations

import io
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.atomic_files import write_bytes_atomically
from regard.core.installation import extra_command
from regard.core.untrusted_files import SMALL, read_bytes
from regard.core.wording import pluralize
from regard.data.foreign_errors import foreign_errors, unreadable
from regard.data.notes import PITCHES, Frame
from regard.errors import ConfigError, DataError

DRUMS = 9  # the channel whose notes are no pitches
MOST_FRAMES = 100_000
# Sounding pitches summed over frames: any file may have the first number, a larger one so many for each byte. Eight
# voices for an hour in sixteenths, at 120 quarter notes a minute, are 230,000; a note takes 8 bytes or so.
FREE_PITCHES, PITCHES_PER_BYTE = 1 << 20, 64
TICKS, LOUDNESS = 480, 80  # of a quarter note; of every note written


class Note(NamedTuple):
    """A pitch, its first frame, and the frame after its last."""

    pitch: int
    begin: int
    end: int


def read_midi(path: Path, steps: int) -> list[Frame]:
    """The frames of a MIDI file, ``steps`` a quarter note, from its first note to its last, drums left out.

    A note begins and ends at the nearest frame (the later one of two) and lasts one frame at least. A pitch sounds as
    long as one note of it does: each track and channel has its own notes, and a note-off ends the oldest of them.
    A note without a note-off lasts one frame.

    Raises:
        DataError: The file is no MIDI, is of type 2 (independent pieces), has no note, lasts more than 100,000 frames,
            or has more sounding pitches than a file of its size may have.
    """
    mido = _library()
    if not path.is_file():
        raise unreadable(path, FileNotFoundError())
    notes: list[Note] = []
    with foreign_errors("this is no MIDI file", path):
        content = read_bytes(path, SMALL)
        file = mido.MidiFile(file=io.BytesIO(content))
        if file.ticks_per_beat < 1:
            raise ValueError("its times are of frames of film (SMPTE), or of no ticks a quarter note")
        for track in file.tracks:
            notes += _notes(track, file.ticks_per_beat, steps)
    if file.type == 2 and len(file.tracks) > 1:
        help = "save each piece as a file of type 0 or 1"
        raise DataError(
            f"the file holds {pluralize(len(file.tracks), 'independent piece')} (type 2)", where=str(path), help=help
        )
    if not notes:
        raise DataError("no note sounds in this file", where=str(path))
    return _frames(notes, max(FREE_PITCHES, PITCHES_PER_BYTE * len(content)), path)


def _frames(notes: Sequence[Note], limit: int, path: Path) -> list[Frame]:
    """The pitches of each frame; equal frames next to each other are one object, so a long note costs no memory."""
    first, last = min(note.begin for note in notes), max(note.end for note in notes)
    if last - first > MOST_FRAMES:
        what = f"the piece lasts {pluralize(last - first, 'frame')}"
        raise DataError(what, where=str(path), why=f"the limit is {MOST_FRAMES:,}", help="fewer --steps")
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
            raise DataError(what, where=str(path), why=why, help="fewer --steps")
        frames.append(frame)
    return frames


def _notes(track: Any, ticks: int, steps: int) -> Iterator[Note]:
    """The notes of a track with ``ticks`` a quarter note. A pitch may be struck again before it ends."""
    begun = defaultdict[tuple[int, int], deque[int]](deque)
    now = 0

    def frame(tick: int) -> int:
        return (2 * tick * steps + ticks) // (2 * ticks)  # half up, in whole numbers: even rhythm stays even

    for message in track:
        now += message.time
        if message.type not in ("note_on", "note_off") or message.channel == DRUMS:
            continue
        strikes = begun[message.channel, message.note]
        if message.type == "note_on" and message.velocity:
            strikes.append(now)
        elif strikes:
            begin = frame(strikes.popleft())
            yield Note(message.note, begin, max(frame(now), begin + 1))
    for (_, pitch), strikes in begun.items():
        for tick in strikes:
            yield Note(pitch, frame(tick), frame(tick) + 1)


def write_midi(frames: Sequence[Frame], path: Path, *, steps: int, tempo: int = 90) -> None:
    """Write frames as a MIDI file, ``steps`` of them a quarter note, ``tempo`` quarter notes a minute.

    A pitch of two frames in a row is one note that goes on: frames do not tell whether it is struck again.
    """
    mido = _library()
    track = mido.MidiTrack([mido.MetaMessage("set_tempo", tempo=mido.bpm2tempo(tempo))])
    told, before = 0, set[int]()  # ticks that the messages so far have told of
    for at, frame in enumerate((*map(set, frames), set[int]())):
        changes = [("note_off", pitch) for pitch in sorted(before - frame)]
        changes += [("note_on", pitch) for pitch in sorted(frame - before)]
        for kind, pitch in changes:
            now = round(at * TICKS / steps)  # from the beginning: a step need not be a whole number of ticks
            track.append(mido.Message(kind, note=pitch, velocity=LOUDNESS, time=now - told))
            told = now
        before = frame
    file, written = mido.MidiFile(ticks_per_beat=TICKS), io.BytesIO()
    file.tracks.append(track)
    file.save(file=written)
    write_bytes_atomically(path, written.getvalue())


def _library() -> Any:
    try:
        import mido
    except ImportError as error:
        raise ConfigError("MIDI cannot be read", why="mido is not installed", help=extra_command("music")) from error
    return mido
