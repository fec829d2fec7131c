"""Lint rules for one line or one pair."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from regard.core.wording import pluralize

MAX_WORDS, MAX_CHARACTERS = 250, 2000

# Control characters except the tab; line and paragraph separators, byte-order marks, direction overrides.
CONTROL = re.compile("[\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\ufeff]")
# UTF-8 that was decoded as Windows-1252 or Latin-1: Ã¤ for ä, â€™ for ’.
CONTINUATION = "\\x80-\\xbf" + "".join(bytes([byte]).decode("cp1252", errors="ignore") for byte in range(0x80, 0xA0))
MOJIBAKE = re.compile(f"[ÂÃÄÅÐÑ][{CONTINUATION}]|â[\\x80€][{CONTINUATION}]|ï¿½")
SAME_SCRIPT = {"CJK": "Han", "HIRAGANA": "Han", "KATAKANA": "Han", "IDEOGRAPHIC": "Han", "FULLWIDTH": "Latin"}


def check_pair(source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, message) for each suspicious property of a pair without blank sides."""
    for side, text in (("source", source), ("target", target)):
        if not text.isprintable() and (match := CONTROL.search(text)):
            yield "control", f"the {side} has the control character U+{ord(match[0]):04X}"
        if not text.isascii():
            if "\ufffd" in text:
                yield "mojibake", f"the {side} has U+FFFD, which replaces text lost in decoding"
            elif match := MOJIBAKE.search(text):
                yield "mojibake", f"the {side} has {match[0]!r}, which looks like UTF-8 decoded as another encoding"
        if len(text) > MAX_WORDS:  # a text has at most as many words as characters
            words = len(text.split())
            if words > MAX_WORDS or len(text) > MAX_CHARACTERS:
                yield "long", f"the {side} has {pluralize(words, 'word')}, {pluralize(len(text), 'character')}"
    if source == target:
        yield "identical", f"source and target are the same: {source[:40]!r}"


def main_script(text: str) -> str | None:
    """Return the most frequent script of the letters: Latin, Cyrillic, Han (with kana) …; None without letters."""
    if text.isascii():
        return "Latin" if any(map(str.isalpha, text)) else None
    counts = Counter(map(_script, text))
    del counts[None]
    return counts.most_common(1)[0][0] if counts else None


@lru_cache(maxsize=65536)
def _script(character: str) -> str | None:
    """Return the script of a letter; None for other characters."""
    if not character.isalpha():
        return None
    # The first word of a letter's Unicode name is its script.
    first = unicodedata.name(character, "").split(" ")[0]
    return SAME_SCRIPT.get(first, first.capitalize()) or None
