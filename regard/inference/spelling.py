"""Text of tokens as they come: whole characters alone, and nothing that may yet turn out to be a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.tokenizers.tokenizer import END, Tokenizer
from regard.search.rows import TokenListener

HALF = "\ufffd"  # what a tokenizer gives for bytes that are no character, or none yet
LONGEST_HALF = 3  # signs at most that an unfinished character is shown as: it has one byte less than four


class StopStrings:
    """Search for the first of several strings in a text that comes in pieces, however it is cut."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held = ""
        self.found = False

    def add(self, piece: str) -> str:
        """The text that is certain to stand before any stop string; none after one was ``found``."""
        self._held += piece
        ends = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if ends:  # the one that is complete first, as if signs came one by one
            self.found = True
            _, certain = min(ends)
        else:
            certain = min((self._begun(stop) for stop in self._stops), default=len(self._held))
        text, self._held = self._held[:certain], "" if self.found else self._held[certain:]
        return text

    def rest(self) -> str:
        """The text held back: where nothing follows, it begins no stop string."""
        text, self._held = self._held, ""
        return text

    def _begun(self, stop: str) -> int:
        """The place from which the text is the beginning of a stop string; its end where it is none."""
        at = self._held.find(stop[0], max(len(self._held) - len(stop) + 1, 0))
        while at >= 0 and not stop.startswith(self._held[at:]):
            at = self._held.find(stop[0], at + 1)
        return len(self._held) if at < 0 else at


class Spelling:
    """The text that tokens spell, piece by piece; a character of several tokens comes once it is whole."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self._tokenizer, self._stops = tokenizer, StopStrings(stops)
        self._tokens: list[int] = []  # from the last place at which all was spelled
        self._shown = 0

    @property
    def stopped(self) -> bool:
        """Return whether a stop string has come."""
        return self._stops.found

    def add(self, token: int) -> str:
        """The text that is certain with one more token."""
        self._tokens.append(token)
        whole = self._tokenizer.decode(self._tokens)
        sure = max(len(whole.rstrip(HALF)), len(whole) - LONGEST_HALF)
        piece = whole[self._shown : sure]
        self._shown = sure
        if sure == len(whole):
            self._tokens, self._shown = [], 0
        return self._stops.add(piece)

    def rest(self, *, halves: bool) -> str:
        """The text held back, at the end; with ``halves``, signs for bytes that did not become a character."""
        piece = self._tokenizer.decode(self._tokens)[self._shown :] if halves and not self.stopped else ""
        self._tokens, self._shown = [], 0
        text = self._stops.add(piece)
        return text if self.stopped else text + self._stops.rest()


class StopListener(TokenListener):
    """Receiver of the tokens of one output that ends it before the first of several strings."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self._spelling = Spelling(tokenizer, stops)

    def add(self, token: int, log_probability: float, alternatives: Sequence[tuple[int, float]]) -> bool:
        """Take the next token. Return whether a stop string has come."""
        if token != END:
            self._spelling.add(token)
        return self._spelling.stopped


def text_before(text: str, stops: Sequence[str]) -> str:
    """Return the text before the first of several strings, the one that is complete first; all of it if none occurs."""
    strings = StopStrings(stops)
    return strings.add(text) + strings.rest() if stops else text
