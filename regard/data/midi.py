"""MIDI files to frames and back, by ``mido`` (the extra ``music``)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.core.atomic_files import write_bytes_atomically
from regard.core.installation import extra_command
from regard.core.untrusted_files import SMALL, read_bytes
from regard.data.foreign_errors import foreign_errors, unreadable
from regard.data.notes import Frame
from regard.errors import ConfigError, DataError

__all__ = ["read_midi", "write_midi"]

DRUMS = 9  # the channel whose notes are no pitches
MOST_FRAMES = 100_000
TICKS, LOUDNESS = 480, 80  # of a quarter note; of every note written


def read_midi(path: Path, steps: int) -> list[Frame]:
    """The frames of a MIDI file, ``steps`` a quarter note, from its first note to its last, drums left out.

    A note begins and ends at the nearest frame, and lasts one at least. DataError for a file that is none, or that
    lasts longer than 100,000 frames.
    """
    mido = _library()
    if not path.is_file():
        raise unreadable(path, FileNotFoundError())
    with foreign_errors("this is no MIDI file", path):
        file = mido.MidiFile(file=io.BytesIO(read_bytes(path, SMALL)))
        if file.ticks_per_beat < 1:
            raise ValueError("its times are of frames of film (SMPTE), or of no ticks a quarter note")
        ticks = file.ticks_per_beat / steps
        sounding = list(_notes(mido.merge_tracks(file.tracks), ticks))
    if not sounding:
        raise DataError("no note sounds in this file", where=str(path))
    first, last = min(begin for _, begin, _ in sounding), max(end for _, _, end in sounding)
    if last - first > MOST_FRAMES:
        what = f"the piece lasts {last - first:,} frames"
        raise DataError(what, where=str(path), why=f"the most are {MOST_FRAMES:,}", help="fewer --steps")
    frames: list[set[int]] = [set() for _ in range(last - first)]
    for pitch, begin, end in sounding:
        for frame in frames[begin - first : end - first]:
            frame.add(pitch)
    return [tuple(sorted(frame)) for frame in frames]


def _notes(messages: Any, ticks: float) -> Iterator[tuple[int, int, int]]:
    """(pitch, first frame, frame after the last) of each note; one that never ends lasts a frame."""
    begun: dict[tuple[int, int], int] = {}
    now = 0
    for message in messages:
        now += message.time
        if message.type not in ("note_on", "note_off") or message.channel == DRUMS:
            continue
        key = (message.channel, message.note)
        if key in begun:
            begin = round(begun.pop(key) / ticks)
            yield message.note, begin, max(round(now / ticks), begin + 1)
        if message.type == "note_on" and message.velocity:
            begun[key] = now
    for (_, pitch), tick in begun.items():
        yield pitch, round(tick / ticks), round(tick / ticks) + 1


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
