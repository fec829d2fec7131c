"""Edits between an output and its reference: word and character error rates of speech recognition.

    WER = 100 · (S + D + I) / N    substitutions, deletions and insertions of the cheapest alignment, N reference words

Over a test set, the counts of all recordings are added first. CER is the same over characters, spaces included. An
empty reference with n output words is n insertions. If all references are empty, the rate is 100 times the number of
insertions, as in jiwer 4. White space at both ends does not count, and several spaces are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regard.core.task import MetricTable

SIGNATURES = {"wer": "edits:words", "cer": "edits:characters"}


class Edits(NamedTuple):
    """Counts of an alignment; those of several recordings add up."""

    correct: int
    substitutions: int
    deletions: int
    insertions: int

    @property
    def reference(self) -> int:
        """Number of reference units."""
        return self.correct + self.substitutions + self.deletions

    @property
    def wrong(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Edits in percent of the reference units."""
        return 100 * self.wrong / max(self.reference, 1)


def units(metric: str, text: str) -> list[str]:
    """Return the units of a text for ``wer`` or ``cer``: words, or characters."""
    words = text.split()
    return words if metric == "wer" else list(" ".join(words))


def count_edits(reference: Sequence[str], output: Sequence[str]) -> Edits:
    """Return the edits of the cheapest alignment (Levenshtein 1966).

    Of several cheapest alignments, the one of jiwer is chosen: from the end, deletions before insertions before
    substitutions, after the common beginning and end were matched. Cost: reference · output steps and numbers.
    """
    first = 0
    while first < min(len(reference), len(output)) and reference[first] == output[first]:
        first += 1
    last = 0
    while last < min(len(reference), len(output)) - first and reference[-1 - last] == output[-1 - last]:
        last += 1
    old, new = reference[first : len(reference) - last], output[first : len(output) - last]
    distance = _distances(old, new)
    row, column, substitutions, deletions, insertions = len(old), len(new), 0, 0, 0
    while row and column:
        if distance[row][column] == distance[row - 1][column] + 1:
            row, deletions = row - 1, deletions + 1
        elif distance[row][column - 1] + 1 == distance[row - 1][column - 1]:
            column, insertions = column - 1, insertions + 1
        else:
            row, column = row - 1, column - 1
            substitutions += old[row] != new[column]
    deletions, insertions = deletions + row, insertions + column
    return Edits(len(reference) - substitutions - deletions, substitutions, deletions, insertions)


def _distances(old: Sequence[str], new: Sequence[str]) -> list[list[int]]:
    table = [list(range(len(new) + 1))]
    for row, symbol in enumerate(old, start=1):
        above, line = table[-1], [row]
        for column, other in enumerate(new, start=1):
            line.append(min(above[column] + 1, line[column - 1] + 1, above[column - 1] + (symbol != other)))
        table.append(line)
    return table


def edit_table(counts: dict[str, Edits]) -> MetricTable:
    """Return the table of edits, a row for each metric with its signature."""
    rows = tuple(
        (name, SIGNATURES[name], edits.reference, edits.substitutions, edits.deletions, edits.insertions, edits.rate)
        for name, edits in counts.items()
    )
    return MetricTable(("metric", "signature", "units", "sub", "del", "ins", "%"), rows)
