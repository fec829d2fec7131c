"""Text of tokens as they arrive: only complete characters, and nothing that may become part of a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.tokenizers.tokenizer import END, Tokenizer
from regard.search.rows import TokenListener

HALF = "\ufffd"  # decoded form of incomplete or invalid bytes
LONGEST_HALF = 3  # maximum length of an incomplete character, which has at most three of four bytes


class StopStrings:
    """Search for the first of several strings in a text that arrives in arbitrary pieces."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held = ""
        self.found = False

    def add(self, piece: str) -> str:
        """Return the text that certainly precedes any stop string; "" after one was ``found``."""
        self._held += piece
        ends = [(begin + len(stop), begin) for stop in self._stops if (begin := self._held.find(stop)) >= 0]
        if ends:  # the one that is complete first, as if characters arrived one by one
            self.found = True
            _, certain = min(ends)
        else:
            certain = min((self._possible_start(stop) for stop in self._stops), default=len(self._held))
        text, self._held = self._held[:certain], "" if self.found else self._held[certain:]
        return text

    def rest(self) -> str:
        """Return the text held back at the end of the input, where it can no longer become a stop string."""
        text, self._held = self._held, ""
        return text

    def _possible_start(self, stop: str) -> int:
        """Return the position at which a stop string may have begun; otherwise the length of the text."""
        begin = self._held.find(stop[0], max(len(self._held) - len(stop) + 1, 0))
        while begin >= 0 and not stop.startswith(self._held[begin:]):
            begin = self._held.find(stop[0], begin + 1)
        return len(self._held) if begin < 0 else begin


class Spelling:
    """The text of tokens, piece by piece; characters of several tokens are returned once they are complete."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self._tokenizer, self._stops = tokenizer, StopStrings(stops)
        self._tokens: list[int] = []  # since the last position with only complete characters
        self._shown = 0

    @property
    def stopped(self) -> bool:
        """True once a stop string has occurred."""
        return self._stops.found

    def add(self, token: int) -> str:
        """Add a token, and return the text that is now certain."""
        self._tokens.append(token)
        whole = self._tokenizer.decode(self._tokens)
        sure = max(len(whole.rstrip(HALF)), len(whole) - LONGEST_HALF)
        piece = whole[self._shown : sure]
        self._shown = sure
        if sure == len(whole):
            self._tokens, self._shown = [], 0
        return self._stops.add(piece)

    def rest(self, *, halves: bool) -> str:
        """Return the text held back, at the end; with ``halves``, also replacement characters for incomplete ones."""
        piece = self._tokenizer.decode(self._tokens)[self._shown :] if halves and not self.stopped else ""
        self._tokens, self._shown = [], 0
        text = self._stops.add(piece)
        return text if self.stopped else text + self._stops.rest()


class StopListener(TokenListener):
    """Receiver of the tokens of one output that ends it at the first of several strings."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self._spelling = Spelling(tokenizer, stops)

    def add(self, token: int, log_probability: float, alternatives: Sequence[tuple[int, float]]) -> bool:
        """Process the next token. Return whether a stop string has occurred."""
        if token != END:
            self._spelling.add(token)
        return self._spelling.stopped


def text_before(text: str, stops: Sequence[str]) -> str:
    """Return the text before the first completed one of several strings; the whole text if none occurs."""
    strings = StopStrings(stops)
    return strings.add(text) + strings.rest() if stops else text
