"""Music as tokens: a piece for each pitch of MIDI, and one for the end of a frame."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.notes import FRAME, PITCHES, name_of, pitch_of
from regard.data.tokenizers.tokenizer import SPECIALS, UNKNOWN, Tokenizer

FRAME_END = len(SPECIALS)  # the number of the piece that ends a frame
FIRST = FRAME_END + 1  # of pitch 0


class NotesTokenizer(Tokenizer):
    """Tokenizer of frames of music (``data/notes``). Spaces, and how a pitch is named, are not kept."""

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
    """Names of pitches and ends of frames, in order."""
    found: list[str] = []
    for number, line in enumerate(text.split(FRAME)):
        found += [FRAME] * (number > 0) + line.split()
    return found
