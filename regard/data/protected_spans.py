"""Spans that translations must repeat (placeholders, addresses, numbers), and required terms that an output lacks."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

# Each pattern visits a character a bounded number of times, so the time is linear in the text.
ADDRESS = (
    r"(?<!\w)(?:https?://|www\.)[^\s<>\"]*[^\s<>\".,;:!?'’”)\]}…]"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"
)
PLACEHOLDER = (
    r"\{\{\s?[\w.:|-]{1,64}\s?\}\}|\$?\{[\w.:|-]{0,64}\}|\$[A-Za-z_]\w*"
    r"|(?<![\w%])%(?:\(\w{1,64}\)|\d{1,3}\$)?[-+0#]{0,4}\d{0,4}(?:\.\d{1,4})?[sdiufFeEgGxXoc@](?!\w)"
)
NUMBER = r"(?<![\w.,])(?<!\d[:/'’\u00a0\u202f-])\d+(?:[.,:/'’\u00a0\u202f-]\d+)*(?!\w|[.,:/-]\d)"
MAX_SPANS = 100  # protected spans of one sentence
PROTECTED = re.compile(rf"(?P<address>{ADDRESS})|(?P<placeholder>{PLACEHOLDER})|(?P<number>{NUMBER})")
GROUPED_NUMBER = re.compile(r"\d+(?:[.,:/'’\u00a0\u202f -]\d+)*")
DIGITS = re.compile(r"\d+")


class RequiredTerm(NamedTuple):
    """Text that an output must contain for the source phrase ``sentence[start:end]``.

    For a protected span, ``text`` equals ``source``; for a glossary term, it is the target phrase.
    """

    start: int
    end: int
    source: str
    text: str
    is_number: bool = False  # only its digits must occur, grouped in any way


def find_protected_spans(sentence: str) -> list[RequiredTerm]:
    """Return the first MAX_SPANS placeholders, addresses and numbers of a sentence, in order."""
    matches = islice(PROTECTED.finditer(sentence), MAX_SPANS)
    return [RequiredTerm(*match.span(), match[0], match[0], match.lastgroup == "number") for match in matches]


def missing_terms(terms: Sequence[RequiredTerm], output: str) -> list[RequiredTerm]:
    """Return the terms missing from ``output``, in order; if a repeated term occurs too rarely, its last instances."""
    required = Counter((term.source, term.text) for term in terms if not term.is_number)
    lacking = {key: count - _occurrences(*key, output) for key, count in required.items()}
    numbers = [[_ascii_digits(group) for group in DIGITS.findall(match)] for match in GROUPED_NUMBER.findall(output)]
    missing = [term for term in terms if term.is_number and not _consume_number(term.text, numbers)]
    for term in reversed(terms):
        if not term.is_number and lacking[term.source, term.text] > 0:
            lacking[term.source, term.text] -= 1
            missing.append(term)
    return sorted(missing)


def _occurrences(source: str, text: str, output: str) -> int:
    """Count the occurrences of a term in ``output``.

    A protected span must be a whole word. A glossary term may be inflected, and capitalized at the start of the output.
    """
    if source != text:
        capital = capitalized(text)
        return output.count(text) + (capital != text and output.startswith(capital))
    before, after = r"(?<!\w)" * bool(re.match(r"\w", text)), r"(?!\w)" * bool(re.search(r"\w\Z", text))
    return len(re.findall(f"{before}{re.escape(text)}{after}", output))


def capitalized(text: str) -> str:
    """Return ``text`` with its first letter capitalized."""
    return text[:1].upper() + text[1:]


def _consume_number(number: str, output_numbers: list[list[str]]) -> bool:
    """Return whether the output contains the digits of ``number``, and remove them, so they count once.

    ``output_numbers`` has the digit groups of each number of the output. The digits may be in one number with any
    grouping, or distributed over several, group by group.
    """
    groups = [_ascii_digits(group) for group in DIGITS.findall(number)]
    for output_groups in output_numbers:
        if "".join(output_groups) == "".join(groups):
            output_groups.clear()
            return True
    if not Counter(groups) <= Counter(group for output_groups in output_numbers for group in output_groups):
        return False
    for group in groups:
        next(output_groups for output_groups in output_numbers if group in output_groups).remove(group)
    return True


def _ascii_digits(number: str) -> str:
    """Return the digits of ``number``, of any script, in ASCII."""
    return "".join(str(unicodedata.decimal(character)) for character in number if character.isdecimal())
