"""Word alignment by IBM Model 1 with a diagonal preference: links counted in parallel text, without attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

ROUNDS = 5  # of EM
TENSION = 4.0  # λ of the diagonal preference
Numbers = npt.NDArray[np.int64]
Pieces = Sequence[Numbers]


class _Cells(NamedTuple):
    """All (generated, conditioning) pairs of pieces of all sentence pairs, ordered by generated piece."""

    column: Numbers  # per cell: index of the generated piece, counted over all sentence pairs
    entry: Numbers  # per cell: index into the translation table
    conditioning: Numbers  # per entry of the table: its conditioning piece
    prior: npt.NDArray[np.float64]  # per cell: the diagonal preference


def lexical_links(sources: Pieces, targets: Pieces) -> list[dict[int, int]]:
    """Return for each pair: target position → source position, if both directions of the model agree.

    p(t | s) of IBM Model 1 (Brown et al. 1993) with the diagonal preference of fast_align (Dyer et al. 2013, Eq. 2,
    λ = 4, no null word), five rounds of EM in each direction. Linked pieces are each other's most probable.
    Cost: about one microsecond for each cell, seconds for 5,000 sentences of twenty pieces.
    """
    forward, backward = _best(sources, targets), _best(targets, sources)
    return [
        {target: source for target, source in enumerate(to_source.tolist()) if to_target[source] == target}
        for to_source, to_target in zip(forward, backward, strict=True)
    ]


def _best(conditioning: Pieces, generated: Pieces) -> list[Numbers]:
    """Return for each pair the position of the most probable conditioning piece of each generated piece."""
    cells = _cells(conditioning, generated)
    table = np.ones(len(cells.conditioning))
    for _ in range(ROUNDS):
        joint = table[cells.entry] * cells.prior
        share = joint / np.bincount(cells.column, joint)[cells.column]
        counts = np.bincount(cells.entry, share, minlength=len(table))
        table = counts / np.bincount(cells.conditioning, counts)[cells.conditioning]
    joint, best, start = table[cells.entry] * cells.prior, [], 0
    for pieces, conditions in zip(generated, conditioning, strict=True):
        size = len(pieces) * len(conditions)
        best.append(joint[start : start + size].reshape(len(pieces), len(conditions)).argmax(1))
        start += size
    return best


def _cells(conditioning: Pieces, generated: Pieces) -> _Cells:
    pairs = list(zip(generated, conditioning, strict=True))
    types = max(int(side.max()) for pair in pairs for side in pair) + 1
    codes = np.concatenate([(conditions * types + pieces[:, None]).ravel() for pieces, conditions in pairs])
    widths = np.concatenate([np.full(len(pieces), len(conditions)) for pieces, conditions in pairs])
    prior = np.concatenate([_diagonal(len(pieces), len(conditions)).ravel() for pieces, conditions in pairs])
    known, entry = np.unique(codes, return_inverse=True)
    return _Cells(np.repeat(np.arange(len(widths)), widths), entry, known // types, prior)


def _diagonal(generated: int, conditioning: int) -> npt.NDArray[np.float64]:
    """Return exp(−λ |i/m − j/n|) for every pair of positions."""
    rows, columns = (np.arange(1, length + 1) / length for length in (generated, conditioning))
    return np.exp(-TENSION * np.abs(rows[:, None] - columns))
