"""Splits of one corpus by a hash: neither part is empty where that is possible, and no label is held out alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from regard.core.task import Report
from regard.core.wording import pluralize
from regard.data.shared_files import FilesConfig, hash_position

Example = TypeVar("Example")
HELD_OUT = 0.1
ENOUGH = 200  # different examples, of which a tenth by a hash is not empty: 0.9 ** 200 is below 1e-9


def split_shares(keys: Iterable[str]) -> dict[str, list[float]] | None:
    """Return shares of a corpus to train and to validate on; None where all examples are equal.

    The shares are [0, 0.9] and [0.9, 1] by the hash of each key, unless one of them would be empty: then a tenth of the
    different examples, and at least one, is held out, those with the lowest or the highest hashes, whichever are fewer.
    """
    counts = Counter[float]()
    for key in keys:
        counts[hash_position(key)] += 1
        if len(counts) == ENOUGH:
            break
    if len(counts) < 2:
        return None
    ordered, border = sorted(counts), 1 - HELD_OUT
    if len(ordered) == ENOUGH or ordered[0] < border <= ordered[-1]:
        return {"train": [0.0, border], "valid": [border, 1.0]}
    number = max(round(HELD_OUT * len(ordered)), 1)
    low, high = ((ordered[at - 1] + ordered[at]) / 2 for at in (number, len(ordered) - number))
    if sum(map(counts.__getitem__, ordered[:number])) < sum(map(counts.__getitem__, ordered[-number:])):
        return {"train": [low, 1.0], "valid": [0.0, low]}
    return {"train": [0.0, high], "valid": [high, 1.0]}


def is_own_split(data: Any) -> bool:
    """Return whether validation data are a share of the files that are trained on."""
    trained = {corpus.source for corpus in data.train}
    return any(corpus.source in trained and corpus.share != (0.0, 1.0) for corpus in data.valid or ())


def read_part(
    data: Any,
    name: str,
    read: Callable[[tuple[FilesConfig, ...]], Iterable[Example]],
    *,
    key: Callable[[Example], Hashable],
    labels: Callable[[Example], Iterable[str]],
) -> list[Example]:
    """Read the examples of a part of the data.

    Where one corpus is split by a hash, an example of the held-out share goes to training if training would not know
    its labels otherwise, and equal examples go together.

    Args:
        data: the section of the config.
        name: ``train`` or ``valid``.
        read: reads the examples of files.
        key: what equal examples have in common.
        labels: the labels of an example.
    """
    if not is_own_split(data):
        return list(read(getattr(data, name) or ()))
    train, valid = list(read(data.train)), list(read(data.valid))
    known = {label for example in train for label in labels(example)}
    moved = {key(example) for example in valid if not known.issuperset(labels(example))}
    if name == "train":
        return [*train, *(example for example in valid if key(example) in moved)]
    return [example for example in valid if key(example) not in moved]


def report_moved(data: Any, read: Callable[[tuple[FilesConfig, ...]], Iterable[Any]], left: int, log: Report) -> None:
    """Report how many held-out examples went to training; ``left``: those that did not."""
    moved = sum(1 for _ in read(data.valid)) - left if is_own_split(data) else 0
    if moved:
        log(f"{pluralize(moved, 'held-out example')} moved to training: their labels occur nowhere else")
    if not left:
        log("nothing is left to validate on: training ends without early stopping")
