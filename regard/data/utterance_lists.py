"""Lists of recordings: JSON lines, tables with a header, and folders with a transcript next to each sound.

JSON lines as NeMo writes them: {"audio_filepath": "a.wav", "text": "hello", "duration": 2.5, "offset": 0}. TSV or CSV
with a header such as Common Voice's: path, sentence, client_id. Folders: NAME.wav and NAME.txt, or LibriSpeech's
``*.trans.txt`` with lines NAME TEXT.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.audio_files import SUFFIXES
from regard.data.column_names import first_of
from regard.data.rows import Row, form_of, read_head, read_rows
from regard.data.text_files import read_lines
from regard.data.utterance import Utterance
from regard.errors import DataError

AUDIO = ("audio_filepath", "audio_path", "audio", "wav", "path", "file", "filename", "file_name", "wav_filename")
TEXT = ("text", "sentence", "transcript", "transcription", "normalized_text")
DURATION, OFFSET = ("duration",), ("offset",)
SPEAKER = ("speaker", "speaker_id", "client_id")
CLIPS = "clips"  # the folder of Common Voice with the sounds of a table
TRANSCRIPTS = ".trans.txt"
EXPECTED = f"a list needs a column of sounds ({', '.join(AUDIO[:3])}, …) and of texts ({', '.join(TEXT[:3])}, …)"


def list_columns(path: Path) -> tuple[str, str | None] | None:
    """Return the columns of the sounds and the texts of a list; None if its names do not identify the sounds."""
    names = _names(path)
    audio = first_of(names, AUDIO)
    return None if audio is None else (audio, first_of(names, TEXT))


def holds_recordings(folder: Path) -> bool:
    """Return whether a folder has sounds with transcripts."""
    return any(True for _ in _transcript_files(folder)) or any(
        file.with_suffix(".txt").is_file() for file in _sounds(folder)
    )


def read_list(path: Path, *, labeled: bool) -> Iterator[Utterance]:
    """Yield the recordings of JSON lines or of a table. DataError if a column or a cell is missing.

    ``labeled``: whether each recording must have a text.
    """
    names = _names(path)
    audio, text = first_of(names, AUDIO), first_of(names, TEXT)
    if audio is None or (labeled and text is None):
        missing = "sounds" if audio is None else "texts"
        why = f"its columns are {', '.join(names)}" if names else "it has no header"
        raise DataError(f"the list has no column of {missing}", where=str(path), why=why, help=EXPECTED)
    optional = {name: first_of(names, known) for name, known in (("duration", DURATION), ("offset", OFFSET))}
    speaker = first_of(names, SPEAKER)
    columns = [column for column in (audio, text, *optional.values(), speaker) if column is not None]
    for row in read_rows(path, columns):
        seconds = {name: None if column is None else _seconds(row, column) for name, column in optional.items()}
        sound = str(row.cells[audio]).strip()
        if not sound:
            raise DataError("the line names no sound", where=row.where, why=f"its cell {audio!r} is empty")
        yield Utterance(
            row.where, None if text is None else str(row.cells[text]), path=_located(path.parent, sound),
            offset=seconds["offset"] or 0.0, duration=seconds["duration"],
            speaker="" if speaker is None else str(row.cells[speaker]),
        )  # fmt: skip


def read_folder(folder: Path, *, labeled: bool) -> Iterator[Utterance]:
    """Yield the recordings of a folder, in the order of their names. DataError if it contains no recording."""
    number = 0
    for transcripts in _transcript_files(folder):
        for line_number, line in enumerate(read_lines(transcripts), start=1):
            name, _, text = line.strip().partition(" ")
            where = f"{transcripts}:{line_number}"
            if not name:
                continue
            number += 1
            yield Utterance(where, text.strip(), path=_sound_of(transcripts.parent / name, where), speaker=_first(name))
    if number:
        return
    for sound in _sounds(folder):
        transcript = sound.with_suffix(".txt")
        if transcript.is_file() or not labeled:
            number += 1
            spoken = " ".join(" ".join(read_lines(transcript)).split()) if transcript.is_file() else None
            yield Utterance(str(sound), spoken, path=sound)
    if not number:
        help = "put NAME.txt next to each NAME.wav, or name a list: JSON lines, or a table with a header"
        raise DataError("the folder has no sound with a transcript", where=str(folder), help=help)


def _names(path: Path) -> Sequence[str]:
    """Return the column names of a list; the first line of a TSV is its header."""
    if form_of(path) == "tsv":
        return next(iter(read_lines(path)), "").split("\t")
    return read_head(path).names


def _seconds(row: Row, column: str) -> float:
    cell = str(row.cells[column]).strip()
    try:
        seconds = float(cell) if cell else 0.0
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0:
        raise DataError(f"{column} is not a number of seconds", where=row.where, why=f"it is {cell[:40]!r}")
    return seconds


def _located(folder: Path, name: str) -> Path:
    """Return the path of a sound that a list in ``folder`` names, in the folder itself or in its folder of clips."""
    path = folder / name
    clip = folder / CLIPS / name
    return clip if not path.is_file() and clip.is_file() else path


def _sounds(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES)


def _transcript_files(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.rglob(f"*{TRANSCRIPTS}")))


def _sound_of(stem: Path, where: str) -> Path:
    """Return the file of a sound without its ending. DataError if it does not exist."""
    for suffix in SUFFIXES:
        if (path := stem.with_name(stem.name + suffix)).is_file():
            return path
    raise DataError("the sound does not exist", where=where, why=f"no file {stem} with {', '.join(SUFFIXES)}")


def _first(name: str) -> str:
    """Return the speaker of a recording in LibriSpeech: SPEAKER-CHAPTER-NUMBER."""
    return name.split("-")[0] if name.count("-") == 2 else ""
