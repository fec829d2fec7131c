"""Items as numbers, and what follows what: learned from training sessions, kept in the run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core import atomic_files
from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.task import CodecsAndSpec, Report, RunFiles
from regard.core.wording import counted
from regard.data.tokenizers.catalogue import Tokenizer, load_tokenizer, train_tokenizer
from regard.data.tokenizers.tokenizer import SPECIALS, UNKNOWN
from regard.errors import DataError, ModelError
from regard.tasks.next_item.sessions import read_sessions

__all__ = ["BEST", "ItemCodec", "make_codec", "open_codec", "open_run"]

BEST = 10  # items that figures are of
FOLLOWERS = "followers.json"


class ItemCodec(NamedTuple):
    """The items, and two baselines: the ten most popular, and of each item the ten that followed it most often."""

    tokenizer: Tokenizer
    popular: tuple[int, ...]
    followers: dict[int, tuple[int, ...]]

    @property
    def spec(self) -> dict[str, int]:
        """The sizes of the network's tables."""
        return {"types": len(self.tokenizer)}

    def numbers(self, items: Sequence[str]) -> npt.NDArray[np.int64]:
        """The number of each item; UNKNOWN for one that training did not have."""
        return np.array(self.tokenizer.encode(" ".join(items)), np.int64)

    def likely_after(self, item: int) -> tuple[int, ...]:
        """Ten items: those that followed this one most often in training, then the most popular."""
        found = self.followers.get(item, ())
        return (*found, *(each for each in self.popular if each not in found))[:BEST]


def make_codec(run: RunFiles, say: Report) -> ItemCodec:
    """Learn items and what follows them, and save both in the run. DataError where there are not two items."""
    data = run.config.data
    sessions = [each.items for each in read_sessions(data.train, data)]
    if len({item for items in sessions for item in items}) < 2:
        what = "there are fewer than two items to learn"
        raise DataError(what, where=data.train[0].name, why="a session is a list of items")
    tokenizer = train_tokenizer((" ".join(items) for items in sessions), data.tokenizer)
    counts: Counter[int] = Counter()
    after: dict[int, Counter[int]] = defaultdict(Counter)
    for items in sessions:
        numbers = tokenizer.encode(" ".join(items))
        counts.update(number for number in numbers if number != UNKNOWN)
        for one, other in pairwise(numbers):
            if UNKNOWN not in (one, other):
                after[one][other] += 1
    codec = ItemCodec(tokenizer, _best(counts), {item: _best(following) for item, following in after.items()})
    events = sum(map(len, sessions))
    kinds = counted(len(tokenizer) - len(SPECIALS), "item")
    say(f"{kinds}, {counted(events, 'time')} in {counted(len(sessions), 'session')}")
    tokenizer.save(run.tokenizers, "text")
    followers = {str(item): list(best) for item, best in codec.followers.items()}
    save_codec_file(run.tokenizers / FOLLOWERS, {"popular": list(codec.popular), "followers": followers})
    atomic_files.fault_point("vocabulary")
    return codec


def _best(counts: Counter[int]) -> tuple[int, ...]:
    return tuple(sorted(counts, key=lambda item: (-counts[item], item))[:BEST])


def open_codec(run: RunFiles) -> ItemCodec:
    """The saved items and followers. ModelError where they are missing or damaged."""
    tokenizer = load_tokenizer(run.tokenizers, "text")
    items = range(len(SPECIALS), len(tokenizer))
    if tokenizer.config.kind != "word" or len({*tokenizer.pieces(items)}) < len(items):
        what = "the items of the model cannot be read"
        raise ModelError(what, where=str(run.tokenizers), why="they are no list of different items")

    def best(found: object) -> tuple[int, ...]:
        if not isinstance(found, list) or len(found) > BEST or not all(type(x) is int and x in items for x in found):
            raise ValueError(f"followers are at most {BEST} numbers of items")
        return tuple(found)

    def parse(value: Any) -> ItemCodec:
        followers = {int(item): best(found) for item, found in value["followers"].items()}
        return ItemCodec(tokenizer, best(value["popular"]), followers)

    return open_codec_file(run.tokenizers / FOLLOWERS, parse)


def open_run(run: RunFiles) -> CodecsAndSpec:
    """See ``core.task.Task.open``."""
    codec = open_codec(run)
    return CodecsAndSpec(codec, codec.spec)
