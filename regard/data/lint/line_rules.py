"""What can be wrong with one line or one pair, seen by itself."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

__all__ = ["LONG_CHARACTERS", "LONG_WORDS", "judge_pair", "main_script"]

LONG_WORDS, LONG_CHARACTERS = 250, 2000

# Controls but for the tab, line and paragraph separators, byte-order marks inside text, direction overrides.
_CONTROL = re.compile("[\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\ufeff]")
# UTF-8 that somebody read as Windows-1252 or Latin-1: Ã¤ for ä, â€™ for ’.
_SECOND = "\\x80-\\xbf" + "".join(bytes([byte]).decode("cp1252", errors="ignore") for byte in range(0x80, 0xA0))
_MOJIBAKE = re.compile(f"[ÂÃÄÅÐÑ][{_SECOND}]|â[\\x80€][{_SECOND}]|ï¿½")
_SAME_SCRIPT = {"CJK": "Han", "HIRAGANA": "Han", "KATAKANA": "Han", "IDEOGRAPHIC": "Han", "FULLWIDTH": "Latin"}


def judge_pair(source: str, target: str) -> Iterator[tuple[str, str]]:
    """(kind, message) of everything suspicious about a pair, neither side of which is blank."""
    for side, text in (("source", source), ("target", target)):
        if not text.isprintable() and (found := _CONTROL.search(text)):
            yield "control", f"the {side} has the control character U+{ord(found[0]):04X}"
        if not text.isascii():
            if "\ufffd" in text:
                yield "mojibake", f"the {side} has U+FFFD, the mark of text lost in decoding"
            elif found := _MOJIBAKE.search(text):
                yield "mojibake", f"the {side} has {found[0]!r}, as of UTF-8 read in another encoding"
        if len(text) > LONG_WORDS:  # fewer characters cannot be more words
            words = len(text.split())
            if words > LONG_WORDS or len(text) > LONG_CHARACTERS:
                yield "long", f"the {side} has {words:,} words, {len(text):,} characters"
    if source == target:
        yield "identical", f"source and target are the same: {source[:40]!r}"


def main_script(text: str) -> str | None:
    """The script most letters of ``text`` belong to: Latin, Cyrillic, Han (with kana) …; None without letters."""
    if text.isascii():
        return "Latin" if any(map(str.isalpha, text)) else None
    counts = Counter(map(_script, text))
    del counts[None]
    return counts.most_common(1)[0][0] if counts else None


@lru_cache(maxsize=65536)
def _script(character: str) -> str | None:
    if not character.isalpha():
        return None
    # The first word of a letter's Unicode name is its script.
    first = unicodedata.name(character, "").split(" ")[0]
    return _SAME_SCRIPT.get(first, first.capitalize()) or None
