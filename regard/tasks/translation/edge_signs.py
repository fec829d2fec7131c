"""Detection of tables whose pairs are edges of a graph rather than translations."""

from __future__ import annotations

MIN_PAIRS = 10  # with fewer pairs, no advice is given
MAX_VALUES = 100_000  # different values per side that are stored


class EdgeSigns:
    """Counts of the pairs of a table, to detect edges.

    The pairs are edges if all values are single words and more than half of the values of one column also occur in the
    other. If most pairs have two equal values, the table is rather a corpus of text corrections.
    """

    def __init__(self) -> None:
        self._pairs = self._equal = 0
        self._names = True
        self._sides: tuple[set[str], set[str]] = (set(), set())

    def add(self, source: str, target: str) -> None:
        """Count a pair; stop storing values once a value has several words."""
        if not self._names:
            return
        if len(source.split()) > 1 or len(target.split()) > 1:
            self._names, self._sides = False, (set(), set())
            return
        self._pairs += 1
        self._equal += source == target
        for seen, value in zip(self._sides, (source, target), strict=True):
            if len(seen) < MAX_VALUES:
                seen.add(value)

    @property
    def advice(self) -> str | None:
        """Message about the task of link prediction; None if the pairs do not look like edges."""
        one, other = self._sides
        few = self._pairs < MIN_PAIRS or 2 * self._equal > self._pairs
        if not self._names or few or 2 * len(one & other) <= min(len(one), len(other)):
            return None
        return (
            "note: most values of one column are also in the other, as in the edge table of a graph. The task is still "
            "translation; for links, add a node table: regard train nodes.csv edges.csv"
        )
