"""What recurrent decoders share: what they remember of a sentence, and what they carry from step to step."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.contract import Memory
from regard.core.state import State
from regard.models.recurrent.stack import Layers

__all__ = ["RecurrentMemory", "RecurrentState", "counted"]


class RecurrentMemory(NamedTuple):
    """``source``, what a decoder reads: a reader's memory, or a summary; ``first``, the state its cells start from."""

    source: Memory
    first: Layers


class RecurrentState(NamedTuple):
    """Per layer what its cell carries; ``feed``, the last read-out where it is fed back, else (); the reader's state;

    ``length``, the position; ``rows``, the sentence each row reads. It cannot be truncated: cells forget.
    """

    layers: Layers
    feed: State
    reader: State
    length: Int[Tensor, "rows"]
    rows: Int[Tensor, "rows"]


def counted(valid: Bool[Tensor, "rows length"]) -> list[Bool[Tensor, "rows"] | None]:
    """Column by column the rows that count; None where all do."""
    return [None] * valid.shape[1] if bool(valid.all()) else list(valid.unbind(1))
