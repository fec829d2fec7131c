"""Lines in the wrong language, as far as the optional ``py3langid`` can tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib import import_module

__all__ = ["Sample", "language_identifier", "strangers"]

SAMPLE = 1000
ENOUGH = 5  # words a line needs to show its language

Identify = Callable[[str], str]


class Sample:
    """Up to SAMPLE pairs spread evenly over a stream of unknown length; the same stream, the same pairs."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str, str]] = []
        self._stride, self._seen = 1, 0

    def offer(self, line: int, source: str, target: str) -> None:
        if min(source.count(" "), target.count(" ")) + 1 < ENOUGH:
            return
        if self._seen % self._stride == 0:
            if len(self.rows) == SAMPLE:
                self.rows = self.rows[::2]
                self._stride *= 2
            if self._seen % self._stride == 0:
                self.rows.append((line, source, target))
        self._seen += 1


def language_identifier() -> Identify | None:
    """A function from text to a language code, or None where ``py3langid`` is not installed."""
    try:
        library = import_module("py3langid")
    except ImportError:
        return None
    return lambda text: str(library.classify(text)[0])


def strangers(rows: list[tuple[int, str, str]], identify: Identify) -> list[tuple[int, str]]:
    """(line, message) of sampled lines that are in the other side's language: untranslated, or sides swapped.

    A single line's language is often misjudged, but seldom exactly as the other side's.
    """
    languages = [(identify(source), identify(target)) for _, source, target in rows]
    if not languages:
        return []
    usual = [Counter(side).most_common(1)[0][0] for side in zip(*languages, strict=True)]
    if usual[0] == usual[1]:
        return [(rows[0][0], f"both sides look like the same language, {usual[0]}")]
    found = []
    for (line, _, _), pair in zip(rows, languages, strict=True):
        for side, language, other in (("source", pair[0], usual[1]), ("target", pair[1], usual[0])):
            if language == other:
                found.append((line, f"the {side} looks like {language}, the language of the other side"))
    return found
