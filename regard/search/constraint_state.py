"""Constraint state of an output: its progress through required token sequences, token by token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

Constraints = Sequence[
    Sequence[int]
]  # sequences that one output must contain, in any order; a repeated sequence must occur repeatedly
ConstraintState = tuple[tuple[int, int], ...]  # per distinct sequence: occurrences still missing, tokens matched so far


class ConstraintSet:
    """The token sequences that one output must contain; an automaton over ``ConstraintState``."""

    def __init__(self, constraints: Constraints) -> None:
        counts = Counter(tuple(sequence) for sequence in constraints if sequence)
        self._sequences = [(sequence, _fallbacks(sequence)) for sequence in counts]
        self._tokens = {token for sequence in counts for token in sequence}
        self._total = sum(len(sequence) * count for sequence, count in counts.items())
        self.initial: ConstraintState = tuple((count, 0) for count in counts.values())

    def advance(self, state: ConstraintState, token: int) -> ConstraintState:
        """Return the state after ``token``; a broken sequence restarts at its longest prefix that ends the output."""
        if token not in self._tokens:
            return tuple((missing, 0) for missing, _ in state)
        return tuple(
            _advanced(sequence, fallbacks, missing, matched, token)
            for (sequence, fallbacks), (missing, matched) in zip(self._sequences, state, strict=True)
        )

    def tokens_met(self, state: ConstraintState) -> int:
        """Return the number of constraint tokens of the output: complete sequences, and the longest one begun."""
        missing = sum(count * len(sequence) for (sequence, _), (count, _) in zip(self._sequences, state, strict=True))
        return self._total - missing + max((matched for _, matched in state), default=0)

    def next_tokens(self, state: ConstraintState) -> list[int]:
        """Return the tokens that continue or begin a missing sequence, in ascending order."""
        open = [
            (sequence, matched)
            for (sequence, _), (missing, matched) in zip(self._sequences, state, strict=True)
            if missing
        ]
        return sorted({sequence[index] for sequence, matched in open for index in (0, matched)})


def _fallbacks(sequence: Sequence[int]) -> list[int]:
    """Return, for each prefix of the sequence, the length of its longest border (Knuth, Morris & Pratt 1977)."""
    lengths = [0] * len(sequence)
    for i in range(1, len(sequence)):
        matched = lengths[i - 1]
        while matched and sequence[matched] != sequence[i]:
            matched = lengths[matched - 1]
        lengths[i] = matched + (sequence[matched] == sequence[i])
    return lengths


def _advanced(sequence: Sequence[int], fallbacks: list[int], missing: int, matched: int, token: int) -> tuple[int, int]:
    while matched and sequence[matched] != token:
        matched = fallbacks[matched - 1]
    matched += sequence[matched] == token
    if matched == len(sequence):
        missing, matched = max(missing - 1, 0), fallbacks[-1]
    return missing, matched if missing else 0
