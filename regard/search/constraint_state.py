"""How much of what an output must contain a beginning of it does, token by token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

__all__ = ["Constraints", "Progress", "Wanted"]

Constraints = Sequence[Sequence[int]]  # what one output must contain, in any order; as often as it is named
Progress = tuple[tuple[int, int], ...]  # of each sequence: how often it is still missing, how much of it stands last


class Wanted:
    """What an output must contain, and how much of it a beginning does."""

    def __init__(self, constraints: Constraints) -> None:
        counts = Counter(tuple(sequence) for sequence in constraints if sequence)
        self._sequences = [(sequence, _fallbacks(sequence)) for sequence in counts]
        self._tokens = {token for sequence in counts for token in sequence}
        self._whole = sum(len(sequence) * count for sequence, count in counts.items())
        self.none: Progress = tuple((count, 0) for count in counts.values())

    def after(self, progress: Progress, token: int) -> Progress:
        """A sequence goes on, or begins again as far as what stands last is a beginning of it."""
        if token not in self._tokens:
            return tuple((missing, 0) for missing, _ in progress)
        return tuple(
            _after(sequence, fallbacks, missing, said, token)
            for (sequence, fallbacks), (missing, said) in zip(self._sequences, progress, strict=True)
        )

    def bank(self, progress: Progress) -> int:
        """How many tokens of it have been said; of what is begun, the sequence of which most has."""
        missing = sum(
            count * len(sequence) for (sequence, _), (count, _) in zip(self._sequences, progress, strict=True)
        )
        return self._whole - missing + max((said for _, said in progress), default=0)

    def next(self, progress: Progress) -> list[int]:
        """The tokens that go on with a sequence, or begin one."""
        open = [
            (sequence, said) for (sequence, _), (count, said) in zip(self._sequences, progress, strict=True) if count
        ]
        return sorted({sequence[at] for sequence, said in open for at in (0, said)})


def _fallbacks(sequence: Sequence[int]) -> list[int]:
    """For each beginning, how much of its end is a shorter beginning (Knuth, Morris & Pratt 1977)."""
    found = [0] * len(sequence)
    for at in range(1, len(sequence)):
        said = found[at - 1]
        while said and sequence[said] != sequence[at]:
            said = found[said - 1]
        found[at] = said + (sequence[said] == sequence[at])
    return found


def _after(sequence: Sequence[int], fallbacks: list[int], missing: int, said: int, token: int) -> tuple[int, int]:
    while said and sequence[said] != token:
        said = fallbacks[said - 1]
    said += sequence[said] == token
    if said == len(sequence):
        missing, said = max(missing - 1, 0), fallbacks[-1]
    return missing, said if missing else 0
