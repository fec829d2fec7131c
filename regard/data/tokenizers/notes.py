"""Music as tokens: one piece for each MIDI pitch, and one for the end of a frame."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.notes import FRAME, PITCHES, name_of, pitch_of
from regard.data.tokenizers.tokenizer import SPECIALS, UNKNOWN, Tokenizer

FRAME_END = len(SPECIALS)  # token that ends a frame
FIRST = FRAME_END + 1  # token of pitch 0


class NotesTokenizer(Tokenizer):
    """Tokenizer of frames of music (``data/notes``). Spaces and alternative names of pitches are not preserved."""

    def __len__(self) -> int:
        return FIRST + PITCHES

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [[self._number(word) for word in _words(line)] for line in lines]

    def _number(self, word: str) -> int:
        if word == FRAME:
            return FRAME_END
        pitch = pitch_of(word)
        return UNKNOWN if pitch is None else FIRST + pitch

    def _unknown(self, line: str) -> list[str]:
        return [word for word in _words(line) if self._number(word) == UNKNOWN]

    def _decode(self, ids: list[int]) -> str:
        return "".join(FRAME if piece == FRAME_END else name_of(piece - FIRST) + " " for piece in ids)

    def _piece(self, piece: int) -> str:
        return "⏎" if piece == FRAME_END else name_of(piece - FIRST)

    def _files(self) -> dict[str, bytes]:
        return {}

    def _vocabulary(self) -> None:
        return None


def _words(text: str) -> list[str]:
    """Return the names of pitches and ends of frames, in order."""
    words: list[str] = []
    for number, line in enumerate(text.split(FRAME)):
        words += [FRAME] * (number > 0) + line.split()
    return words
