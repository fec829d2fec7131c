"""Signs that the pairs of a table are edges between nodes rather than words and what they become."""

from __future__ import annotations

FEWEST = 10  # pairs that anything is said of
MOST = 100_000  # different values of a side that are kept


class EdgeSigns:
    """Pairs of a table, counted one by one: names of nodes are one word each, and those of both columns are the same.

    Most of one column's values stand in the other, too, and few pairs are of a value and itself, as in a corpus where
    texts are corrected.
    """

    def __init__(self) -> None:
        self._pairs = self._equal = 0
        self._names = True
        self._sides: tuple[set[str], set[str]] = (set(), set())

    def add(self, source: str, target: str) -> None:
        """Count a pair; nothing is kept once a value has several words."""
        if not self._names:
            return
        if len(source.split()) > 1 or len(target.split()) > 1:
            self._names, self._sides = False, (set(), set())
            return
        self._pairs += 1
        self._equal += source == target
        for seen, value in zip(self._sides, (source, target), strict=True):
            if len(seen) < MOST:
                seen.add(value)

    @property
    def advice(self) -> str | None:
        """One line on the task that was chosen and on the other; None where nothing looks like edges."""
        one, other = self._sides
        few = self._pairs < FEWEST or 2 * self._equal > self._pairs
        if not self._names or few or 2 * len(one & other) <= min(len(one), len(other)):
            return None
        return (
            "most names of one column stand in the other, too, as in a table of edges: what is trained is a translator "
            "all the same (task.kind = translation); links want a table of the nodes beside it: "
            "regard train nodes.csv edges.csv"
        )
