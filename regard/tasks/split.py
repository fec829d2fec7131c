"""Splits of a corpus by a hash, without empty parts and without labels that occur only in the held-out part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from regard.core.task import Report
from regard.core.wording import pluralize
from regard.data.shared_files import FilesConfig, hash_position

Example = TypeVar("Example")
HELD_OUT = 0.1
ENOUGH = 200  # with 200 different examples, the held-out tenth is empty with probability 0.9 ** 200 < 1e-9


def split_shares(keys: Iterable[str]) -> dict[str, list[float]] | None:
    """Return the shares of a corpus for training and validation; None if all examples are equal.

    The shares are [0, 0.9] and [0.9, 1] by the hash of each key. If one of them would be empty, a tenth of the
    different examples, at least one, is held out: those with the lowest or the highest hashes, the smaller set of both.
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
    low, high = ((ordered[index - 1] + ordered[index]) / 2 for index in (number, len(ordered) - number))
    if sum(map(counts.__getitem__, ordered[:number])) < sum(map(counts.__getitem__, ordered[-number:])):
        return {"train": [low, 1.0], "valid": [0.0, low]}
    return {"train": [0.0, high], "valid": [high, 1.0]}


def is_own_split(data: Any) -> bool:
    """Return whether the validation data is a share of the training files."""
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

    If one corpus is split by a hash, held-out examples with a label missing from the training share move to training,
    with all equal examples.

    Args:
        data: the section ``data`` of the config.
        name: ``train`` or ``valid``.
        read: reads the examples of files.
        key: returns a value that is the same for equal examples.
        labels: returns the labels of an example.
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
    """Log the number of held-out examples that moved to training; ``left`` is the number of the others."""
    moved = sum(1 for _ in read(data.valid)) - left if is_own_split(data) else 0
    if moved:
        log(f"{pluralize(moved, 'held-out example')} moved to training: their labels occur nowhere else")
    if not left:
        log("no validation: no held-out example is left, so early stopping is off")
