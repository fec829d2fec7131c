"""Names of tensors in checkpoints of earlier formats, and their current names. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Value = TypeVar("Value")

# Neighboring components of a name, in format 1 and now. Names of optimizer tensors end in names of parameters.
RENAMED = {
    "feed_forward.enter": "feed_forward.up",
    "feed_forward.leave": "feed_forward.down",
    "encoder.enter": "encoder.input_proj",  # of a convolutional encoder or decoder
    "encoder.leave": "encoder.output_proj",
    "decoder.enter": "decoder.input_proj",
    "decoder.leave": "decoder.output_proj",
    "decoder.gist": "decoder.summary_proj",  # of a recurrent decoder without attention
}
# The last component of a name, in formats 1 and 2 and now.
RENAMED_LAST = {"projection": "head.weight", "output_bias": "head.bias"}


def current_name(name: str) -> str:
    """Return the current name of a tensor that format 1 or 2 calls ``name``; a current name is returned unchanged."""
    *rest, last = _replaced(name, RENAMED).split(".")
    return ".".join([*rest, RENAMED_LAST.get(last, last)])


def format_1_name(name: str) -> str:
    """Return the name of a tensor in format 1, the inverse of ``current_name``."""
    earlier = _replaced(name, {new: old for old, new in RENAMED.items()})
    return _replaced(earlier, {new: old for old, new in RENAMED_LAST.items()})


def current_names(tensors: Mapping[str, Value]) -> dict[str, Value]:
    """Return the same values under current names, in the same order."""
    return {current_name(name): value for name, value in tensors.items()}


def _replaced(name: str, table: Mapping[str, str]) -> str:
    dotted = f".{name}."
    for old, new in table.items():
        dotted = dotted.replace(f".{old}.", f".{new}.")
    return dotted[1:-1]
