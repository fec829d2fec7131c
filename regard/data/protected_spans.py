"""What has to come out as it went in: placeholders, addresses and numbers; and whether an output has them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

__all__ = ["Demand", "capitalised", "kept", "missing"]

# None of them looks at a letter more than a few times, however long a text is.
ADDRESS = (
    r"(?<!\w)(?:https?://|www\.)[^\s<>\"]*[^\s<>\".,;:!?'’”)\]}…]"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"
)
PLACEHOLDER = (
    r"\{\{\s?[\w.:|-]{1,64}\s?\}\}|\$?\{[\w.:|-]{0,64}\}|\$[A-Za-z_]\w*"
    r"|(?<![\w%])%(?:\(\w{1,64}\)|\d{1,3}\$)?[-+0#]{0,4}\d{0,4}(?:\.\d{1,4})?[sdiufFeEgGxXoc@](?!\w)"
)
NUMBER = r"(?<![\w.,])(?<!\d[:/'’\u00a0\u202f-])\d+(?:[.,:/'’\u00a0\u202f-]\d+)*(?!\w|[.,:/-]\d)"
MOST = 100  # things of one sentence
THING = re.compile(rf"(?P<address>{ADDRESS})|(?P<placeholder>{PLACEHOLDER})|(?P<number>{NUMBER})")
GROUPED = re.compile(r"\d+(?:[.,:/'’\u00a0\u202f -]\d+)*")
DIGITS = re.compile(r"\d+")


class Demand(NamedTuple):
    """``text`` has to be in the output, for ``source``, which stands from ``start`` to ``end`` in the sentence."""

    start: int
    end: int
    source: str
    text: str
    number: bool = False  # its digits will do, however they are grouped


def kept(sentence: str) -> list[Demand]:
    """What stands in a sentence and should in its translation, in its order; the first MOST."""
    things = islice(THING.finditer(sentence), MOST)
    return [Demand(*found.span(), found[0], found[0], found.lastgroup == "number") for found in things]


def missing(demands: Sequence[Demand], output: str) -> list[Demand]:
    """Those that the output has not, or not as often: of several alike the last."""
    plain = Counter((demand.source, demand.text) for demand in demands if not demand.number)
    lacking = {key: count - _count(*key, output) for key, count in plain.items()}
    said = [[_digits(group) for group in DIGITS.findall(each)] for each in GROUPED.findall(output)]
    found = [demand for demand in demands if demand.number and not _taken(demand.text, said)]
    for demand in reversed(demands):
        if not demand.number and lacking[demand.source, demand.text] > 0:
            lacking[demand.source, demand.text] -= 1
            found.append(demand)
    return sorted(found)


def _count(source: str, text: str, output: str) -> int:
    """How often it is there. What is to stay as it is ends where it ends; a term may have an ending of its own,
    and a capital at the beginning.
    """
    if source != text:
        capital = capitalised(text)
        return output.count(text) + (capital != text and output.startswith(capital))
    before, after = r"(?<!\w)" * bool(re.match(r"\w", text)), r"(?!\w)" * bool(re.search(r"\w\Z", text))
    return len(re.findall(f"{before}{re.escape(text)}{after}", output))


def capitalised(text: str) -> str:
    """As it begins a sentence."""
    return text[:1].upper() + text[1:]


def _taken(number: str, said: list[list[str]]) -> bool:
    """Whether its digits stand together in the output, or group by group; then they stand for no other number."""
    parts = [_digits(group) for group in DIGITS.findall(number)]
    for each in said:
        if "".join(each) == "".join(parts):
            each.clear()
            return True
    if not Counter(parts) <= Counter(group for each in said for group in each):
        return False
    for part in parts:
        next(each for each in said if part in each).remove(part)
    return True


def _digits(number: str) -> str:
    """In the digits of this file, whatever script they are of."""
    return "".join(str(unicodedata.decimal(sign)) for sign in number if sign.isdecimal())
