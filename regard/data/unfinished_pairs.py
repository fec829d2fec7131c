"""Random changes of training pairs for translation of sources that have not ended: cut pairs, and limited sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.randomness import example_generator
from regard.data.masking import Flags, word_numbers

STREAM = 37  # of ``example_generator``
Numbers = npt.NDArray[np.int64]


class UnfinishedPair(NamedTuple):
    """A pair as training sees it.

    ``ended``: whether the source is complete and has an END; the target always has one, at which a cut pair waits for
    more of the source. ``visible``: number of source positions that each target position may see, END included; None
    for all.
    """

    source: Sequence[int] | npt.NDArray[np.integer]
    target: Sequence[int] | npt.NDArray[np.integer]
    ended: bool = True
    visible: Numbers | None = None


class UnfinishedPairs(NamedTuple):
    """Random changes of pairs, drawn by (seed, index, visit); none at visit 0, as in evaluation.

    ``share``: of pairs that are cut to a beginning of both sides, in the ratio of their lengths in words (after
    Niehues et al. 2018). ``waits``: the smallest and largest k of wait-k, of which each pair draws one (Elbayad et al.
    2020, multi-path); None: targets see the whole source. ``starts``: ``word_starts`` of both tokenizers.
    """

    share: float
    waits: tuple[int, int] | None
    seed: int
    starts: tuple[tuple[Flags, Flags], tuple[Flags, Flags]]

    def draw(
        self, source: npt.NDArray[np.integer], target: npt.NDArray[np.integer], index: int, visit: int
    ) -> UnfinishedPair:
        """Return a pair with its changes at this visit."""
        pair = UnfinishedPair(source, target)
        if not visit or not len(source) or not len(target):
            return pair
        random = example_generator(self.seed, STREAM, index, visit)
        numbers = [
            word_numbers(side.astype(np.int64), starts)
            for side, starts in zip((source, target), self.starts, strict=True)
        ]
        source_words, target_words = (words - words[0] for words in numbers)
        if random.random() < self.share:
            pair = _cut(pair, source_words, target_words, random)
        if self.waits is None:
            return pair
        k = int(random.integers(self.waits[0], self.waits[1] + 1))
        return pair._replace(visible=_visible(pair, source_words, target_words, k))


def _cut(
    pair: UnfinishedPair, source_words: Numbers, target_words: Numbers, random: np.random.Generator
) -> UnfinishedPair:
    """Return a beginning of both sides in whole words; the pair itself if less than a target word would remain."""
    source_count, target_count = int(source_words[-1]) + 1, int(target_words[-1]) + 1
    if source_count < 2:
        return pair
    read = int(random.integers(1, source_count))
    written = read * target_count // source_count
    if not written:
        return pair
    ends = int((source_words < read).sum()), int((target_words < written).sum())
    return UnfinishedPair(pair.source[: ends[0]], pair.target[: ends[1]], ended=False)


def _visible(pair: UnfinishedPair, source_words: Numbers, target_words: Numbers, k: int) -> Numbers:
    """Return the visible source positions of each target position: those of the first k + t − 1 words for word t.

    The END of a source is visible with its last word, and END of a target belongs to the word after the last one.
    """
    source_words = source_words[: len(pair.source)]
    words = np.append(target_words[: len(pair.target)], target_words[len(pair.target) - 1] + 1)
    read = k + words
    visible = np.searchsorted(source_words, read)
    return np.where(read > source_words[-1], len(pair.source) + pair.ended, visible).astype(np.int64)
