"""Baseline of masked models of texts: counts of the tokens before and after a hidden token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from regard.baselines.context_product import GapContexts
from regard.baselines.context_tables import UNKNOWN, Codes, Numbers, code
from regard.baselines.gaps import HIDDEN, Flags, GapBaseline, HiddenTokens
from regard.baselines.ngrams import FEW_TYPES
from regard.core.baseline import Floats
from regard.data.tokenizers.tokenizer import BEGIN, END, SPECIALS

REACH = {True: 4, False: 2}  # tokens on each side, for few types and for many
OUTSIDE = -2  # in place of a token before the begin or after the end of a text
MAX_TYPES = 1 << 21


class NeighborBaseline(GapBaseline):
    """Tables of the one to n tokens before, of those after, and of the nearest one or two pairs on both sides.

    A context ends at a hidden token. n is 2, or 4 for a vocabulary of at most ``FEW_TYPES``.
    """

    kind: ClassVar[str] = "neighbors"
    alone: ClassVar[bool] = True

    @property
    def description(self) -> str:
        return f"product of Kneser–Ney tables of {self.levels[1]} tokens before and {self.levels[2]} after"

    def begin(self, types: int) -> Flags:
        if not len(SPECIALS) < types <= MAX_TYPES:
            raise ValueError("the size of the vocabulary is wrong")
        reach = REACH[types <= FEW_TYPES]
        self.types, self.levels = types, (0, reach, reach, 2)
        return np.arange(types) >= len(SPECIALS)

    def counted(self, texts: Sequence[Numbers]) -> HiddenTokens:
        tokens = np.concatenate([np.zeros(0, np.int64), *texts]).astype(np.int64)
        return HiddenTokens(tokens, tokens > END, tokens)

    def gaps(self, tokens: HiddenTokens) -> tuple[GapContexts, Numbers, Numbers]:
        positions, reach = np.flatnonzero(tokens.chosen), self.levels[1]
        left = _neighbors(tokens, positions, range(-1, -reach - 1, -1))
        right = _neighbors(tokens, positions, range(1, reach + 1))
        both = [column for pair in zip(left[:2], right[:2], strict=True) for column in pair]
        outcomes = tokens.tokens[positions]
        chains = [_codes(1, left, 1), _codes(2, right, 1), _codes(3, both, 2)]
        return GapContexts([], *chains), outcomes, np.zeros_like(outcomes)

    def token_distribution(self, tokens: HiddenTokens) -> tuple[Floats, Numbers]:
        contexts, outcomes, _ = self.gaps(tokens)
        return self.product.evidence(contexts, len(outcomes))


def _neighbors(tokens: HiddenTokens, positions: Numbers, distances: range) -> list[Numbers]:
    """Return the tokens at these distances from each position, ``OUTSIDE`` beyond its text."""
    text = np.cumsum(tokens.tokens == BEGIN)
    columns = []
    for distance in distances:
        index = np.clip(positions + distance, 0, max(len(tokens.tokens) - 1, 0))
        inside = (text[index] == text[positions]) & (index == positions + distance)
        columns.append(np.where(inside, tokens.read[index], OUTSIDE))
    return columns


def _codes(number: int, columns: Sequence[Numbers], step: int) -> list[Codes]:
    """Return the codes of the first ``step``, 2 ``step``, … columns; UNKNOWN if one of them is hidden."""
    codes, visible = list[Codes](), np.ones(len(columns[0]), bool)
    for end in range(step, len(columns) + 1, step):
        visible = visible & np.all([column != HIDDEN for column in columns[:end]], axis=0)
        codes.append(np.where(visible, code(number + 16 * end, columns[:end]), UNKNOWN))
    return codes
