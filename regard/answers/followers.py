"""Baselines for next items: the most popular items, and the most frequent successors of an item in training."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.task import RunFiles
from regard.data.tokenizers.tokenizer import UNKNOWN
from regard.metrics.ranking import BEST

FOLLOWERS_FILE = "followers.json"
Best = tuple[int, ...]


class Followers(NamedTuple):
    """Numbers of items, best first, at most ``BEST``: the most popular ones, and the successors of each item."""

    popular: Best = ()
    followers: Mapping[int, Best] = {}

    @classmethod
    def learn(cls, sessions: Iterable[Sequence[int]]) -> Self:
        counts: Counter[int] = Counter()
        after: dict[int, Counter[int]] = defaultdict(Counter)
        for numbers in sessions:
            counts.update(number for number in numbers if number != UNKNOWN)
            for item, following in pairwise(numbers):
                if UNKNOWN not in (item, following):
                    after[item][following] += 1
        return cls(_best(counts), {item: _best(following) for item, following in after.items()})

    @staticmethod
    def open(run: RunFiles, items: range) -> Followers:
        """Open the file of ``save`` with numbers of ``items``. Raises ModelError if it is missing or damaged."""

        def best(numbers: Any) -> Best:
            known = isinstance(numbers, list) and all(type(number) is int and number in items for number in numbers)
            if not known or len(numbers) > BEST:
                raise ValueError(f"followers must be at most {BEST} numbers of items")
            return tuple(numbers)

        def parse(value: Any) -> Followers:
            followers = {int(item): best(numbers) for item, numbers in value["followers"].items()}
            return Followers(best(value["popular"]), followers)

        return open_codec_file(run.tokenizers / FOLLOWERS_FILE, parse)

    def save(self, run: RunFiles) -> None:
        followers = {str(item): list(best) for item, best in self.followers.items()}
        save_codec_file(run.tokenizers / FOLLOWERS_FILE, {"popular": list(self.popular), "followers": followers})

    def likely_after(self, item: int) -> Best:
        """Return ``BEST`` items: the most frequent successors of this one, then the most popular items."""
        following = self.followers.get(item, ())
        return (*following, *(other for other in self.popular if other not in following))[:BEST]

    def ranks(self, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """Return the rank of each item of a session by both baselines; −1 for the first, which has no predecessor."""
        ranks = [(-1, -1)] * min(len(numbers), 1)
        for item, following in pairwise(numbers):
            ranks.append((_rank(following, self.popular), _rank(following, self.likely_after(item))))
        return ranks


def _best(counts: Counter[int]) -> Best:
    return tuple(sorted(counts, key=lambda item: (-counts[item], item))[:BEST])


def _rank(item: int, best: Best) -> int:
    return best.index(item) if item in best else BEST
