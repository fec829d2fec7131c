"""Transcripts as subtitles and tables: SRT, WebVTT, TSV and JSON."""

from __future__ import annotations

from collections.abc import Callable
from json import dumps
from typing import NamedTuple

from regard.tasks.recognition.transcript import Transcript

MAX_SECONDS, MAX_WORDS, PAUSE = 7.0, 14, 0.8  # of a segment, and seconds between words that end one


class Segment(NamedTuple):
    """A part of a transcript that is shown at once."""

    start: float
    end: float
    text: str


def segments(transcript: Transcript) -> list[Segment]:
    """Return the segments of a transcript: they end at pauses, after 14 words, and before 7 seconds are over.

    Without the seconds of its words, a transcript is one segment.
    """
    if not transcript.text:
        return []
    if not transcript.words:
        return [Segment(0.0, transcript.seconds, transcript.text)]
    parts = [[transcript.words[0]]]
    for word in transcript.words[1:]:
        part = parts[-1]
        new = word.start - part[-1].end > PAUSE or word.end - part[0].start > MAX_SECONDS or len(part) >= MAX_WORDS
        parts += [[word]] if new else []
        part += [] if new else [word]
    return [Segment(part[0].start, part[-1].end, " ".join(word.word for word in part)) for part in parts]


def srt(transcript: Transcript) -> str:
    """Return a transcript as SubRip subtitles."""
    blocks = [
        f"{number}\n{_clock(start, ',')} --> {_clock(end, ',')}\n{text}\n"
        for number, (start, end, text) in enumerate(segments(transcript), start=1)
    ]
    return "\n".join(blocks)


def vtt(transcript: Transcript) -> str:
    """Return a transcript as WebVTT subtitles."""
    blocks = [f"{_clock(start, '.')} --> {_clock(end, '.')}\n{text}\n" for start, end, text in segments(transcript)]
    return "\n".join(["WEBVTT\n", *blocks])


def tsv(transcript: Transcript) -> str:
    """Return the segments as a table: start and end in milliseconds, and the text, as Whisper's programs write it."""
    lines = [f"{round(1000 * start)}\t{round(1000 * end)}\t{text}\n" for start, end, text in segments(transcript)]
    return "".join(["start\tend\ttext\n", *lines])


def json(transcript: Transcript) -> str:
    """Return all facts and the segments as one JSON object."""
    parts = [
        {"start": round(start, 3), "end": round(end, 3), "text": text} for start, end, text in segments(transcript)
    ]  # fmt: skip
    return dumps({**transcript.as_dict(), "segments": parts}, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Transcript], str]] = {"srt": srt, "vtt": vtt, "tsv": tsv, "json": json}


def _clock(seconds: float, mark: str) -> str:
    """Return hours, minutes, seconds and milliseconds: 00:01:02,345."""
    milliseconds = round(1000 * max(seconds, 0))
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{mark}{rest % 1000:03}"
