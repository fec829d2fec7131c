"""Lint rule for lines in the wrong language, with the optional package ``py3langid``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import islice

SAMPLE_SIZE = 1000
SWAP_SAMPLE, FEWEST = 50, 3  # maximum and minimum number of pairs to detect swapped sides
MIN_WORDS = 5  # minimum number of words to identify the language of a line

Identify = Callable[[str], str]


class PairSample:
    """Deterministic sample of up to SAMPLE_SIZE pairs, spread evenly over a stream of unknown length."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str, str]] = []
        self._stride, self._seen = 1, 0

    def add(self, line: int, source: str, target: str) -> None:
        """Add a pair of the stream if it falls into the sample and both sides have MIN_WORDS words."""
        if min(source.count(" "), target.count(" ")) + 1 < MIN_WORDS:
            return
        if self._seen % self._stride == 0:
            if len(self.rows) == SAMPLE_SIZE:
                self.rows = self.rows[::2]
                self._stride *= 2
            if self._seen % self._stride == 0:
                self.rows.append((line, source, target))
        self._seen += 1


def language_identifier() -> Identify | None:
    """Return a function from text to language code; None if ``py3langid`` is not installed."""
    try:
        library = import_module("py3langid")
    except ImportError:
        return None
    return lambda text: str(library.classify(text)[0])


def is_swapped(pairs: Iterable[tuple[str, str]], languages: tuple[str, str]) -> bool:
    """Return whether most sources are in the target language and most targets in the source language.

    ``languages``: codes of the source and the target, in this order. Returns False if ``py3langid`` is not installed,
    and if too few pairs have enough words.
    """
    long = (pair for pair in pairs if min(side.count(" ") for side in pair) + 1 >= MIN_WORDS)
    sample = list(islice(long, SWAP_SAMPLE))
    identify = language_identifier() if len(sample) >= FEWEST else None
    if identify is None:
        return False
    source, target = (code.lower().partition("-")[0] for code in languages)
    swapped = sum(identify(left) == target and identify(right) == source for left, right in sample)
    return 2 * swapped > len(sample)


def wrong_language_lines(rows: list[tuple[int, str, str]], identify: Identify) -> list[tuple[int, str]]:
    """Return (line, message) for sampled lines in the other side's language: untranslated or swapped lines.

    The language of a single line is often misidentified, but rarely as exactly that of the other side.
    """
    languages = [(identify(source), identify(target)) for _, source, target in rows]
    if not languages:
        return []
    main = [Counter(side).most_common(1)[0][0] for side in zip(*languages, strict=True)]
    if main[0] == main[1]:
        return [(rows[0][0], f"both sides look like the same language, {main[0]}")]
    messages = []
    for (line, _, _), pair in zip(rows, languages, strict=True):
        for side, language, other in (("source", pair[0], main[1]), ("target", pair[1], main[0])):
            if language == other:
                messages.append((line, f"the {side} looks like {language}, the language of the other side"))
    return messages
