"""The text of a recording, with the seconds of its words."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from typing import Any, NamedTuple

from regard.core.untrusted_files import shortened
from regard.data.tokenizers.tokenizer import Tokenizer


class Word(NamedTuple):
    """A recognized word.

    Attributes:
        word: its text.
        start: the second at which it starts.
        end: the second at which it ends.
    """

    word: str
    start: float
    end: float


class Transcript(NamedTuple):
    """The text of a recording.

    Attributes:
        text: the words, separated by spaces.
        words: the words with their seconds; () if the model has no CTC.
        seconds: duration of the recording.
        score: the value by which the search ranked the text, in nats.
    """

    text: str
    words: tuple[Word, ...] = ()
    seconds: float = 0.0
    score: float = 0.0

    def __repr__(self) -> str:
        return f"Transcript({shortened(self.text, 60)!r}, {self.seconds:.1f} s)"

    def as_dict(self) -> dict[str, Any]:
        """Return all facts as plain values."""
        words = [
            {"word": word, "start": round(start, 3), "end": round(end, 3)} for word, start, end in self.words
        ]  # fmt: skip
        return {"text": self.text, "words": words, "seconds": round(self.seconds, 3), "score": self.score}

    def json(self) -> str:
        """Return the facts as one line."""
        return dumps(self.as_dict(), ensure_ascii=False)


def joined_transcripts(parts: Sequence[Transcript], starts: Sequence[float], seconds: float) -> Transcript:
    """Return the transcript of a recording from those of its parts, which start at these seconds."""
    text = " ".join(part.text for part in parts if part.text)
    words = (
        Word(word, first + start, last + start)
        for part, start in zip(parts, starts, strict=True)
        for word, first, last in part.words
    )
    return Transcript(text, tuple(words), seconds, sum(part.score for part in parts))


def words_at(
    pieces: Sequence[int], ranges: Sequence[tuple[float, float]], tokenizer: Tokenizer
) -> tuple[Word, ...]:  # fmt: skip
    """Return the words of pieces, from the first second of their first piece to the last of their last one.

    Args:
        pieces: of a text.
        ranges: first and last second of each piece.
        tokenizer: of the pieces.
    """
    spans = list[tuple[float, float] | None]()
    for number, (start, end) in enumerate(ranges, start=1):
        words = tokenizer.decode(pieces[:number]).split()
        visible = bool(tokenizer.decode([pieces[number - 1]]).strip())
        spans += [None] * (len(words) - len(spans))
        if words and visible:
            known = spans[len(words) - 1]
            spans[len(words) - 1] = (start, end) if known is None else (known[0], end)
    words = tokenizer.decode(pieces).split()
    return tuple(Word(word, *span) for word, span in zip(words, spans, strict=False) if span is not None)
