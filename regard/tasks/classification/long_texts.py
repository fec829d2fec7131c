"""Automatic choice between truncated long texts and texts read in windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from regard.errors import RegardError
from regard.tasks.automatic_training import MIN_BATCH
from regard.tasks.classification.data_config import LabeledDataConfig

SAMPLED = 1_000  # training texts whose lengths are read
LONG_SHARE = 0.1  # share of texts longer than the limit from which they are read in windows


class LongTexts(NamedTuple):
    """The choice.

    Attributes:
        data: keys of the section ``data``.
        batch: tokens of the smallest batch, which has room for the longest text.
        reasons: the reason, if texts are read in windows.
    """

    data: Mapping[str, Any] = {}
    batch: int = MIN_BATCH
    reasons: tuple[str, ...] = ()


def choose_long_texts(overrides: Mapping[str, Any], lengths: Iterable[int]) -> LongTexts:
    """Return ``windows`` if many texts are longer than ``data.max_length`` and the keys of the user allow them.

    Args:
        overrides: the keys of ``train`` that the user sets, and the tables ``data`` and ``model``.
        lengths: approximate number of pieces of each training text, of which the first 1,000 are read.
    """
    data, pooling = overrides.get("data", {}), overrides.get("model", {}).get("pooling")
    size, windows = (_positive(data.get(key), key) for key in ("max_length", "max_windows"))
    chosen = data.get("long_texts")
    share = _share_above(lengths, size) if chosen is None and pooling not in ("first", "last") else 0.0
    if chosen != "windows" and share < LONG_SHARE:
        return LongTexts()
    batch = overrides.get("batch_tokens")
    fitting = batch // (size + 2) if isinstance(batch, int) and "max_windows" not in data else windows
    if fitting < 2 and chosen is None:  # the batch of the user has no room for two windows
        return LongTexts()
    keys: dict[str, Any] = {"long_texts": "windows"} | ({"max_windows": fitting} if 2 <= fitting < windows else {})
    reason = f"{share:.0%} of the texts are longer than {size} pieces → read in windows (data.long_texts = windows)"
    return LongTexts(keys, max(min(fitting, windows) * (size + 2), MIN_BATCH), (reason,) if chosen is None else ())


def _positive(value: Any, key: str) -> int:
    """Return a number above 0 that the user sets, or the default of the key; validation reports other values later."""
    return value if type(value) is int and value > 0 else int(LabeledDataConfig.model_fields[key].default)


def _share_above(lengths: Iterable[int], limit: int) -> float:
    """Return the share of the first texts that are longer than the limit; 0 if they cannot be read."""
    try:
        sample = [*islice(lengths, SAMPLED)]
    except RegardError:  # reported by the next reader
        return 0.0
    return sum(length > limit for length in sample) / max(len(sample), 1)
