"""What an output lacks, put where its words stand for those of the source."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.protected_spans import Demand, capitalised
from regard.server.text.word_alignment import Links
from regard.server.text.word_spans import Word, words

__all__ = ["inserted"]

CLOSING = ".,;:!?)]}»”’…。、，！？）"
OPENING = "([{«„“‘（"


def inserted(source: str, output: str, links: Links, demands: Sequence[Demand]) -> str:
    """The output with all of ``demands`` in it, each beside the words that stand for its neighbours in the source.

    Words that stand for it give way: all of them to a term, which is another word for the same; else those that are
    a part of it, or a mark, which is what the model made of it.
    """
    read, said = words(source), words(output)
    changes: list[tuple[int, int, Demand]] = []
    for (start, end), demand in sorted((_place(demand, read, said, output, links), demand) for demand in demands):
        taken = changes[-1][1] if changes else 0
        changes.append((start, end, demand) if start >= taken else (taken, taken, demand))
    for start, end, demand in reversed(changes):
        before, after = output[:start], output[end:]
        after = after[1:] if after[:2] == "  " else after  # where the model left it out
        left = " " if before and not before[-1].isspace() and before[-1] not in OPENING else ""
        right = " " if after and not after[0].isspace() and after[0] not in CLOSING else ""
        capital = start == 0 and output[:1].isupper() and demand.source != demand.text
        text = capitalised(demand.text) if capital else demand.text
        output = f"{before}{left}{text}{right}{after}"
    return output


def _place(
    demand: Demand, read: Sequence[Word], said: Sequence[Word], output: str, links: Links
) -> tuple[int, int]:  # fmt: skip
    """From where to where in the output it comes."""
    its = [number for number, word in enumerate(read) if word.start < demand.end and demand.start < word.end]
    if not its or not links:
        return len(output), len(output)
    first, last = its[0], its[-1]
    own = [number for number, link in enumerate(links) if first <= link <= last]
    run = _run([number for number in own if _part(output[said[number].start : said[number].end], demand)])
    if run:
        return said[run[0]].start, said[run[-1]].end
    before = max(
        (number for number, link in enumerate(links) if link < first), key=lambda at: (links[at], at), default=None
    )
    if before is not None:
        return said[before].end, said[before].end
    after = min((number for number, link in enumerate(links) if link >= first), default=0)
    return said[after].start, said[after].start


def _run(numbers: Sequence[int]) -> list[int]:
    """The most of them that follow on one another."""
    runs: list[list[int]] = [[]]
    for number in numbers:
        if runs[-1] and number != runs[-1][-1] + 1:
            runs.append([])
        runs[-1].append(number)
    return max(runs, key=len)


def _part(word: str, demand: Demand) -> bool:
    if demand.source != demand.text:
        return any(map(str.isalnum, word))
    if demand.number:
        return not any(sign.isalpha() for sign in word)
    return not any(map(str.isalnum, word)) or word.casefold() in demand.text.casefold()
